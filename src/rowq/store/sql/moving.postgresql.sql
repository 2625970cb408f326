-- Moving on PostgreSQL: one statement for all rows, with a list for each column, instead of one statement per row.

-- name: delete_ready
DELETE FROM rowq_ready r
USING UNNEST(CAST(:queue[] AS TEXT[]), CAST(:ranking[] AS BIGINT[]), CAST(:position[] AS BIGINT[]), CAST(:seq[] AS BIGINT[]))
    AS given (queue, ranking, position, seq)
WHERE r.queue = given.queue
    AND r.ranking = given.ranking
    AND r.position = given.position
    AND r.seq = given.seq;

-- name: delete_dead
DELETE FROM rowq_dead d
USING UNNEST(CAST(:queue[] AS TEXT[]), CAST(:seq[] AS BIGINT[])) AS given (queue, seq)
WHERE d.queue = given.queue
    AND d.seq = given.seq;

-- name: delete_blocked
DELETE FROM rowq_blocked b
USING UNNEST(CAST(:queue[] AS TEXT[]), CAST(:group_key[] AS TEXT[]), CAST(:seq[] AS BIGINT[])) AS given (queue, group_key, seq)
WHERE b.queue = given.queue
    AND b.group_key = given.group_key
    AND b.seq = given.seq;

-- name: free_key
DELETE FROM rowq_waiting_keys k
USING UNNEST(CAST(:queue[] AS TEXT[]), CAST(:message_key[] AS TEXT[]), CAST(:seq[] AS BIGINT[])) AS given (queue, message_key, seq)
WHERE k.queue = given.queue
    AND k.message_key = given.message_key
    AND k.seq = given.seq;

-- name: delete_group_head
DELETE FROM rowq_group_heads h
USING UNNEST(CAST(:queue[] AS TEXT[]), CAST(:group_key[] AS TEXT[])) AS given (queue, group_key)
WHERE h.queue = given.queue
    AND h.group_key = given.group_key;

-- name: audit_enqueued
-- Without a look at the messages: their seqs are consecutive.
INSERT INTO rowq_audit (id, at, queue, seq, event, actor, seqs)
SELECT
    rowq_draw_run('rowq_audit_ids', last - first + 1), :at, :queue, CASE WHEN first = last THEN first ELSE -1 - block END, 'enqueued', :actor,
    CASE WHEN first < last THEN ARRAY(SELECT GENERATE_SERIES(first, last)) END
FROM (
    SELECT block, GREATEST(block * 64, :first) AS first, LEAST(block * 64 + 63, :last) AS last
    FROM GENERATE_SERIES(CAST(:first AS BIGINT) / 64, CAST(:last AS BIGINT) / 64) AS blocks (block)
) AS run;
