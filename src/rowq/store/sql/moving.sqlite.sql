-- Moving on SQLite.

-- name: insert_audit_run
-- The ids of a run follow the last one, and end with the id of its row.
INSERT INTO rowq_audit (id, at, queue, seq, event, attempt, actor, seqs)
SELECT COALESCE(MAX(id), 0) + :lines, :at, :queue, :lead, :event, :attempt, :actor, :seqs
FROM rowq_audit;
