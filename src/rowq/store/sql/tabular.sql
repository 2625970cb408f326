-- Whole tables, range by range, for data pipelines. One query for each state and each log; all queries of a reader run in one snapshot, so
-- a message is found in exactly one state.
--
-- In every query m is the message and p its row in a state table; arrow/schema.py names the columns of each query, in this order. Payloads
-- are sent only if requested. A range of seqs is walked by a primary key: that of the bodies if most of them are wanted (ready), that of
-- the narrow state table otherwise.

-- fragment: id_of_m
COALESCE(m.own_id, PRINTF('%08x-%04x-7000-%04x-%012x', m.sent_at >> 16, m.sent_at & 65535, 32768 | (m.seq >> 48), m.seq & 281474976710655))

-- fragment: id_of_p
COALESCE(p.own_id, PRINTF('%08x-%04x-7000-%04x-%012x', p.sent_at >> 16, p.sent_at & 65535, 32768 | (p.seq >> 48), p.seq & 281474976710655))

-- fragment: payload
CASE WHEN :with_payload = 1 THEN m.payload END

-- fragment: body
m.seq, m.queue, {id_of_m}, m.sent_at, m.format, {payload}, m.headers, m.message_key, m.group_key, m.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys

-- fragment: filters
(:since IS NULL OR m.sent_at >= :since)
    AND (:until IS NULL OR m.sent_at < :until)
    AND (:lowest IS NULL OR m.priority >= :lowest)
    AND (:highest IS NULL OR m.priority <= :highest)

-- fragment: dead_filters
(:since IS NULL OR p.died_at >= :since)
    AND (:until IS NULL OR p.died_at < :until)
    AND (:lowest IS NULL OR m.priority >= :lowest)
    AND (:highest IS NULL OR m.priority <= :highest)
    AND (:reason IS NULL OR p.reason = :reason)

-- name: table_ready
SELECT {body}, p.attempts, p.error, p.expires_at
FROM rowq_messages m
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = m.seq AND p.seq = m.seq
WHERE m.seq BETWEEN :first AND :last
    AND m.queue IN (:queues[])
    AND {filters};

-- name: table_moved
-- Ready messages whose position differs from their seq.
SELECT {body}, p.attempts, p.error, p.expires_at
FROM rowq_moved v
JOIN rowq_messages m ON m.seq = v.seq
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = v.position AND p.seq = m.seq
WHERE v.seq BETWEEN :first AND :last
    AND v.position <> v.seq
    AND m.queue IN (:queues[])
    AND {filters};

-- name: table_scheduled
SELECT {body}, p.attempts, p.error, p.expires_at, p.due
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq BETWEEN :first AND :last
    AND m.queue IN (:queues[])
    AND {filters};

-- name: table_leased
SELECT {body}, p.attempts, p.error, p.expires_at, p.lease_until, p.leased_at, p.consumer, p.reason, p.died_at, p.redeliveries
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq BETWEEN :first AND :last
    AND m.queue IN (:queues[])
    AND {filters};

-- name: table_blocked
SELECT {body}, p.attempts, p.error, p.expires_at, p.due
FROM rowq_blocked p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.seq BETWEEN :first AND :last
    AND {filters};

-- name: table_dead
SELECT {body}, p.attempts, p.error, p.due, p.reason, p.died_at, p.redeliveries
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.seq BETWEEN :first AND :last
    AND {filters};

-- name: table_finished
-- The body exists only if the queue keeps it.
SELECT p.seq, p.queue, {id_of_p}, p.sent_at, m.format, {payload}, m.headers, p.message_key, p.group_key, p.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys,
    p.attempts, p.error, p.leased_at, p.consumer, p.outcome, p.finished_at
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq BETWEEN :first AND :last
    AND p.queue IN (:queues[])
    AND (:since IS NULL OR p.sent_at >= :since)
    AND (:until IS NULL OR p.sent_at < :until)
    AND (:lowest IS NULL OR p.priority >= :lowest)
    AND (:highest IS NULL OR p.priority <= :highest);

-- name: table_dead_letters
SELECT {body}, p.attempts, p.error, p.due, p.reason, p.died_at, p.redeliveries
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue IN (:queues[])
    AND p.seq BETWEEN :first AND :last
    AND {dead_filters};

-- name: table_leased_dead_letters
SELECT {body}, p.attempts, p.error, p.expires_at, p.lease_until, p.leased_at, p.consumer, p.reason, p.died_at, p.redeliveries
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq BETWEEN :first AND :last
    AND p.reason IS NOT NULL
    AND m.queue IN (:queues[])
    AND {dead_filters};

-- name: table_history
-- Of all queues, including deleted ones, if requested. A row without a queue is an emptied line (see maintenance.sql).
SELECT p.id, p.seq, p.queue, {id_of_p}, p.outcome, p.sent_at, p.leased_at, p.finished_at, p.attempts, p.consumer, p.error,
    p.message_key, p.group_key, p.priority,
    CASE WHEN :with_body = 1 THEN m.format END, {payload}, CASE WHEN :with_body = 1 THEN m.headers END
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.id BETWEEN :first AND :last
    AND p.queue <> ''
    AND (:every = 1 OR p.queue IN (:queues[]))
    AND (:since IS NULL OR p.finished_at >= :since)
    AND (:until IS NULL OR p.finished_at < :until)
    AND (:lowest IS NULL OR p.priority >= :lowest)
    AND (:highest IS NULL OR p.priority <= :highest)
    AND (:outcome IS NULL OR p.outcome = :outcome)
ORDER BY p.id;

-- name: table_audit
SELECT p.id, p.at, p.queue, p.seq, p.event, p.attempt, p.actor, p.detail
FROM {audit_lines} p
WHERE p.run BETWEEN :first AND :last + 63
    AND p.id BETWEEN :first AND :last
    AND p.queue <> ''
    AND (:every = 1 OR p.queue IN (:queues[]))
    AND (:since IS NULL OR p.at >= :since)
    AND (:until IS NULL OR p.at < :until)
    AND (:event IS NULL OR p.event = :event)
ORDER BY {audit_order};

-- name: table_slice
-- Messages of one batch of a stream, without those in quarantine. The reader counts them.
SELECT {body}, p.attempts, p.error, p.expires_at, p.lease_until, p.leased_at, p.consumer, s.place
FROM rowq_streamed s
JOIN rowq_leased p ON p.seq = s.seq AND p.token = s.token
JOIN rowq_messages m ON m.seq = p.seq
WHERE s.stream = :stream
    AND s.batch = :batch
    AND s.place BETWEEN :first AND :last
    AND s.quarantined_at IS NULL
ORDER BY s.place;

-- name: bounds_messages
SELECT
    (SELECT MIN(seq) FROM rowq_messages),
    (SELECT MAX(seq) FROM rowq_messages),
    (SELECT MIN(seq) FROM rowq_history WHERE seq > 0),
    (SELECT MAX(seq) FROM rowq_history WHERE seq > 0);

-- name: bounds_dead
SELECT
    (SELECT MIN(seq) FROM rowq_dead WHERE queue IN (:queues[])),
    (SELECT MAX(seq) FROM rowq_dead WHERE queue IN (:queues[])),
    (SELECT MIN(seq) FROM rowq_leased WHERE queue IN (:queues[]) AND reason IS NOT NULL),
    (SELECT MAX(seq) FROM rowq_leased WHERE queue IN (:queues[]) AND reason IS NOT NULL);

-- name: bounds_history
SELECT (SELECT MIN(id) FROM rowq_history), (SELECT MAX(id) FROM rowq_history);

-- name: bounds_audit
SELECT (SELECT id + 1 - {lines_of_row} FROM rowq_audit ORDER BY id LIMIT 1), (SELECT MAX(id) FROM rowq_audit);

-- name: bounds_recent_history
SELECT MIN(id), MAX(id)
FROM rowq_history
WHERE queue IN (:queues[])
    AND finished_at >= :since
    AND finished_at < :until;
