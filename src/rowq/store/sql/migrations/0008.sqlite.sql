-- Version 8: the same event of many messages is one row of the audit.

-- A row is one event of one message, or a run: the same event of up to 64 messages, written by one statement (decision 43). Then seqs has
-- the JSON array of their seqs, all of one block of 64, and seq is -1 minus the number of the block, so that one index finds either.
ALTER TABLE rowq_audit ADD COLUMN seqs TEXT;

-- The same a line at a time. run and lead are the columns of the index that a reader begins with; the ids of a run end with that of its row.
CREATE VIEW rowq_audit_lines AS
SELECT
    a.id AS run, a.seq AS lead,
    a.id - COALESCE(JSON_ARRAY_LENGTH(a.seqs), 1) + json_each.key + 1 AS id,
    a.at, a.queue, json_each.value AS seq, a.event, a.attempt, a.actor, a.detail
FROM rowq_audit a
CROSS JOIN json_each(COALESCE(a.seqs, JSON_ARRAY(a.seq)));
