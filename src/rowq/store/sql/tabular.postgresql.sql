-- Whole tables on PostgreSQL. The sixteen bytes of an id are written as hex digits, and its type puts the dashes in.

-- fragment: id_of_m
COALESCE(m.own_id, CAST(CAST(LPAD(TO_HEX((m.sent_at << 16) | 28672), 16, '0') || TO_HEX(m.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- fragment: id_of_p
COALESCE(p.own_id, CAST(CAST(LPAD(TO_HEX((p.sent_at << 16) | 28672), 16, '0') || TO_HEX(p.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- name: table_ready
-- From the narrow side: the bodies are looked up, or walked beside it, whichever is less. Positions are a range of the index for each
-- ranking. PostgreSQL takes two columns to be equal in one row of two hundred, here it is nearly all of them: behind COALESCE it guesses half.
SELECT {body}, p.attempts, p.error, p.expires_at
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.position BETWEEN :first AND :last
    AND COALESCE(p.seq = p.position, FALSE)
    AND m.seq BETWEEN :first AND :last
    AND {filters};

-- name: plan_for_reading
-- For the rest of the transaction. To compile a query takes longer than all of it. Whoever wants several at work reads several ranges at
-- once, and their processes would be in each other's way. A merge of two sorted ranges gives its rows as it goes, and in order, where a hash
-- is first made of all of one.
SELECT
    SET_CONFIG('jit', 'off', TRUE),
    SET_CONFIG('max_parallel_workers_per_gather', '0', TRUE),
    SET_CONFIG('enable_hashjoin', 'off', TRUE),
    SET_CONFIG('work_mem', '32MB', TRUE);

-- name: pick_columns
-- Around one of the queries here: what is not picked is neither looked up nor sent.
SELECT <columns>
FROM (
    <query>
) AS given (<names>);
