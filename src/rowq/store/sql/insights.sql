-- Insights: the reading side. Runs on connections of its own and never holds up a writer.

-- fragment: body
m.seq, m.queue, m.sent_at, m.format, m.payload, m.headers, m.message_key, m.group_key, m.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys, m.own_id

-- fragment: ready_place
r.attempts, r.error, r.expires_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: scheduled_place
s.attempts, s.error, s.expires_at, s.due, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: blocked_place
b.attempts, b.error, b.expires_at, b.due, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: leased_place
l.attempts, l.error, l.expires_at, NULL, l.lease_until, l.leased_at, l.consumer, l.reason, l.died_at, NULL, NULL

-- fragment: dead_place
d.attempts, d.error, NULL, d.due, NULL, NULL, NULL, d.reason, d.died_at, NULL, NULL

-- fragment: finished
h.seq, h.queue, h.sent_at, m.format, m.payload, m.headers, h.message_key, h.group_key, h.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys, h.own_id,
    h.attempts, h.error, NULL, NULL, NULL, h.leased_at, h.consumer, NULL, NULL, h.outcome, h.finished_at

-- fragment: filters
(:message_key IS NULL OR m.message_key = :message_key)
    AND (:group_key IS NULL OR m.group_key = :group_key)

-- name: browse_ready
-- Two arms instead of a row-value comparison, so that every database walks the index from the cursor on.
SELECT * FROM (
    SELECT {body}, {ready_place}, r.ranking AS a, r.position AS b
    FROM rowq_ready r
    JOIN rowq_messages m ON m.seq = r.seq
    WHERE r.queue = :queue AND r.ranking = :a AND r.position > :b AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(r.error, :text) > 0)
    UNION ALL
    SELECT {body}, {ready_place}, r.ranking AS a, r.position AS b
    FROM rowq_ready r
    JOIN rowq_messages m ON m.seq = r.seq
    WHERE r.queue = :queue AND r.ranking > :a AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(r.error, :text) > 0)
    ORDER BY a, b
    LIMIT :limit
);

-- name: browse_scheduled
SELECT * FROM (
    SELECT {body}, {scheduled_place}, s.due AS a, s.seq AS b
    FROM rowq_scheduled s
    JOIN rowq_messages m ON m.seq = s.seq
    WHERE s.queue = :queue AND s.due = :a AND s.seq > :b AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(s.error, :text) > 0)
    UNION ALL
    SELECT {body}, {scheduled_place}, s.due AS a, s.seq AS b
    FROM rowq_scheduled s
    JOIN rowq_messages m ON m.seq = s.seq
    WHERE s.queue = :queue AND s.due > :a AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(s.error, :text) > 0)
    ORDER BY a, b
    LIMIT :limit
);

-- name: browse_leased
SELECT * FROM (
    SELECT {body}, {leased_place}, l.lease_until AS a, l.seq AS b
    FROM rowq_leased l
    JOIN rowq_messages m ON m.seq = l.seq
    WHERE l.queue = :queue AND l.lease_until = :a AND l.seq > :b AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(l.error, :text) > 0)
    UNION ALL
    SELECT {body}, {leased_place}, l.lease_until AS a, l.seq AS b
    FROM rowq_leased l
    JOIN rowq_messages m ON m.seq = l.seq
    WHERE l.queue = :queue AND l.lease_until > :a AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(l.error, :text) > 0)
    ORDER BY a, b
    LIMIT :limit
);

-- name: browse_blocked
SELECT * FROM (
    SELECT {body}, {blocked_place}, b.group_key AS a, b.seq AS b
    FROM rowq_blocked b
    JOIN rowq_messages m ON m.seq = b.seq
    WHERE b.queue = :queue AND b.group_key = :a AND b.seq > :b AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(b.error, :text) > 0)
    UNION ALL
    SELECT {body}, {blocked_place}, b.group_key AS a, b.seq AS b
    FROM rowq_blocked b
    JOIN rowq_messages m ON m.seq = b.seq
    WHERE b.queue = :queue AND b.group_key > :a AND {filters}
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(b.error, :text) > 0)
    ORDER BY a, b
    LIMIT :limit
);

-- name: browse_dead
SELECT {body}, {dead_place}, d.seq AS a, d.seq AS b
FROM rowq_dead d
JOIN rowq_messages m ON m.seq = d.seq
WHERE d.queue = :queue AND d.seq > :a AND {filters}
    AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(d.error, :text) > 0)
ORDER BY a
LIMIT :limit;

-- name: browse_finished
SELECT * FROM (
    SELECT {finished}, h.finished_at AS a, h.id AS b
    FROM rowq_history h
    LEFT JOIN rowq_messages m ON m.seq = h.seq
    WHERE h.queue = :queue AND h.finished_at = :a AND h.id > :b
        AND (:message_key IS NULL OR h.message_key = :message_key)
        AND (:group_key IS NULL OR h.group_key = :group_key)
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(h.error, :text) > 0)
    UNION ALL
    SELECT {finished}, h.finished_at AS a, h.id AS b
    FROM rowq_history h
    LEFT JOIN rowq_messages m ON m.seq = h.seq
    WHERE h.queue = :queue AND h.finished_at > :a
        AND (:message_key IS NULL OR h.message_key = :message_key)
        AND (:group_key IS NULL OR h.group_key = :group_key)
        AND (:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(h.error, :text) > 0)
    ORDER BY a, b
    LIMIT :limit
);

-- name: get_ready
SELECT {body}, {ready_place}, 0, 0
FROM rowq_messages m
JOIN rowq_ready r ON r.queue = m.queue AND r.ranking = -m.priority AND r.position = m.seq AND r.seq = m.seq
WHERE m.seq = :seq;

-- name: get_ready_moved
SELECT {body}, {ready_place}, 0, 0
FROM rowq_messages m
JOIN rowq_ready r ON r.queue = m.queue AND r.ranking = -m.priority AND r.seq = m.seq
WHERE m.seq = :seq;

-- name: get_scheduled
SELECT {body}, {scheduled_place}, 0, 0
FROM rowq_scheduled s
JOIN rowq_messages m ON m.seq = s.seq
WHERE s.seq = :seq;

-- name: get_leased
SELECT {body}, {leased_place}, 0, 0
FROM rowq_leased l
JOIN rowq_messages m ON m.seq = l.seq
WHERE l.seq = :seq;

-- name: get_blocked
SELECT {body}, {blocked_place}, 0, 0
FROM rowq_messages m
JOIN rowq_blocked b ON b.queue = m.queue AND b.group_key = m.group_key AND b.seq = m.seq
WHERE m.seq = :seq;

-- name: get_dead
SELECT {body}, {dead_place}, 0, 0
FROM rowq_messages m
JOIN rowq_dead d ON d.queue = m.queue AND d.seq = m.seq
WHERE m.seq = :seq;

-- name: get_finished
SELECT {finished}, 0, 0
FROM rowq_history h
LEFT JOIN rowq_messages m ON m.seq = h.seq
WHERE h.seq = :seq;

-- name: count_states
SELECT
    (SELECT COUNT(*) FROM rowq_ready WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_scheduled WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NULL),
    (SELECT COUNT(*) FROM rowq_blocked WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_dead WHERE queue = :queue)
        + (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NOT NULL),
    (SELECT COUNT(*) FROM rowq_history WHERE queue = :queue),
    (SELECT m.sent_at FROM rowq_messages m WHERE m.seq = (SELECT MIN(seq) FROM rowq_ready WHERE queue = :queue));

-- name: read_audit
SELECT at, event, queue, seq, attempt, actor, detail
FROM rowq_audit
WHERE seq = :seq
ORDER BY id;

-- name: read_kv
-- The first bound is inclusive: a key is its own prefix.
SELECT entry_key, format, value, written_at, message_id
FROM rowq_kv
WHERE entry_key >= :low
    AND entry_key < :high
ORDER BY entry_key
LIMIT :limit;

-- name: delete_kv
DELETE FROM rowq_kv
WHERE entry_key = :entry_key;

-- name: list_ready
SELECT seq FROM rowq_ready WHERE queue = :queue;

-- name: list_scheduled
SELECT seq FROM rowq_scheduled WHERE queue = :queue;

-- name: list_blocked
SELECT seq FROM rowq_blocked WHERE queue = :queue;

-- name: list_leased
SELECT seq FROM rowq_leased WHERE queue = :queue;

-- name: list_dead
SELECT seq FROM rowq_dead WHERE queue = :queue;

-- name: list_finished
SELECT seq FROM rowq_history WHERE queue = :queue;
