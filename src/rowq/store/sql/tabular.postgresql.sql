-- Whole tables on PostgreSQL. The sixteen bytes of an id are written as hex digits, and the UUID type adds the dashes.

-- fragment: id_of_m
COALESCE(m.own_id, CAST(CAST(LPAD(TO_HEX((m.sent_at << 16) | 28672), 16, '0') || TO_HEX(m.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- fragment: id_of_p
COALESCE(p.own_id, CAST(CAST(LPAD(TO_HEX((p.sent_at << 16) | 28672), 16, '0') || TO_HEX(p.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- name: table_ready
-- Starts from the narrow table: bodies are looked up or merged, whichever is cheaper. Positions are a range of the index for each ranking.
-- PostgreSQL assumes that two columns are equal in one of two hundred rows, here they are in nearly all: with COALESCE it assumes half.
SELECT {body}, p.attempts, p.error, p.expires_at
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.position BETWEEN :first AND :last
    AND COALESCE(p.seq = p.position, FALSE)
    AND m.seq BETWEEN :first AND :last
    AND {filters};

-- name: plan_for_reading
-- For the rest of the transaction. JIT takes longer than the query itself. Readers parallelize by reading several ranges at once, and
-- parallel workers would compete with them. A merge join yields its rows immediately and in order, while a hash join first reads one side
-- completely.
SELECT
    SET_CONFIG('jit', 'off', TRUE),
    SET_CONFIG('max_parallel_workers_per_gather', '0', TRUE),
    SET_CONFIG('enable_hashjoin', 'off', TRUE),
    SET_CONFIG('work_mem', '32MB', TRUE);

-- name: pick_columns
-- Wraps one of the queries here: columns that are not picked are neither looked up nor sent.
SELECT <columns>
FROM (
    <query>
) AS given (<names>);
