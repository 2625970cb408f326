-- Whole tables on PostgreSQL. The sixteen bytes of an id are written as hex digits, and its type puts the dashes in.

-- fragment: id_of_m
COALESCE(m.own_id, CAST(CAST(LPAD(TO_HEX((m.sent_at << 16) | 28672), 16, '0') || TO_HEX(m.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- fragment: id_of_p
COALESCE(p.own_id, CAST(CAST(LPAD(TO_HEX((p.sent_at << 16) | 28672), 16, '0') || TO_HEX(p.seq | (1::BIGINT << 63)) AS UUID) AS TEXT))

-- name: table_ready
-- From the narrow side: the bodies are looked up, or hashed, whichever is less. Positions are a range of the index for each ranking.
SELECT {body}, p.attempts, p.error, p.expires_at
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.position BETWEEN :first AND :last
    AND p.seq = p.position
    AND m.seq BETWEEN :first AND :last
    AND {filters};

-- name: pick_columns
-- Around one of the queries here: what is not picked is neither looked up nor sent.
SELECT <columns>
FROM (
    <query>
) AS given (<names>);
