-- Leasing on MariaDB. A statement locks the rows of all its tables; the body is locked after its state row, as the lock order requires.
-- All indexes are forced, that of the bodies too: otherwise a small table would be scanned, including rows locked by other transactions.

-- name: take_ready
-- Two ranges of one index, walked from the place on: a row-value comparison would start at the queue's beginning.
SELECT {ready_row}
FROM rowq_ready r FORCE INDEX (PRIMARY)
JOIN rowq_messages m FORCE INDEX (PRIMARY) ON m.seq = r.seq
WHERE r.queue = :queue
    AND (r.ranking > :ranking OR (r.ranking = :ranking AND r.position >= :position))
ORDER BY r.ranking, r.position, r.seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: look_ready
SELECT ranking, position, seq
FROM rowq_ready FORCE INDEX (PRIMARY)
WHERE queue = :queue
    AND (ranking > :ranking OR (ranking = :ranking AND position >= :position))
ORDER BY ranking, position, seq
LIMIT :limit;

-- name: take_ready_at
SELECT {ready_row}
FROM rowq_ready r FORCE INDEX (PRIMARY)
STRAIGHT_JOIN rowq_messages m FORCE INDEX (PRIMARY) ON m.seq = r.seq
WHERE r.queue = :queue
    AND r.ranking = :ranking
    AND r.position IN (:positions[])
ORDER BY r.position, r.seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: take_dead
SELECT
    d.seq, d.attempts, d.redeliveries, d.reason, d.error, d.died_at,
    m.marks, m.format, m.payload, m.headers, m.sent_at, m.message_key, m.group_key, m.priority, m.own_id
FROM rowq_dead d FORCE INDEX (rowq_dead_due)
JOIN rowq_messages m FORCE INDEX (PRIMARY) ON m.seq = d.seq
WHERE d.queue = :queue
    AND d.due <= :now
ORDER BY d.due, d.seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: take_due
SELECT s.seq, s.due, s.attempts, s.expires_at, s.error, m.priority
FROM rowq_scheduled s FORCE INDEX (rowq_scheduled_due)
JOIN rowq_messages m FORCE INDEX (PRIMARY) ON m.seq = s.seq
WHERE s.queue = :queue
    AND s.due > :floor
    AND s.due <= :now
ORDER BY s.due, s.seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: take_lease_expired
SELECT seq
FROM rowq_leased FORCE INDEX (rowq_leased_until)
WHERE queue = :queue
    AND lease_until > :floor
    AND lease_until <= :now
ORDER BY lease_until, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: find_ready
-- The queues that have ready messages, for waiting receives. With EXISTS the whole table might be read.
SELECT q.name
FROM rowq_queues q
WHERE q.name IN (:queues[])
    AND (SELECT 1 FROM rowq_ready r WHERE r.queue = q.name LIMIT 1) = 1;
