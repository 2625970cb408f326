-- Leasing: the hot path. Every query here walks an index from its beginning and stops after :limit rows, so its cost does not grow with
-- the backlog, with delayed messages or with the number of processed messages.

-- fragment: ready_row
-- The columns that delivering a ready message needs, in the order in which lease.py reads them.
r.seq, r.ranking, r.position, r.attempts, r.expires_at, r.error,
m.marks, m.format, m.payload, m.headers, m.sent_at, m.message_key, m.group_key, m.priority, m.own_id, m.deadline_ms,
m.delay_ms

-- name: take_ready
SELECT {ready_row}
FROM rowq_ready r
JOIN rowq_messages m ON m.seq = r.seq
WHERE r.queue = :queue
ORDER BY r.ranking, r.position, r.seq
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED;

-- name: look_ready
-- The head of a queue, from a place on.
SELECT ranking, position, seq
FROM rowq_ready
WHERE queue = :queue
    AND (ranking, position) >= (:ranking, :position)
ORDER BY ranking, position, seq
LIMIT :limit;

-- name: take_ready_at
SELECT {ready_row}
FROM rowq_ready r
JOIN rowq_messages m ON m.seq = r.seq
WHERE r.queue = :queue
    AND r.ranking = :ranking
    AND r.position IN (:positions[])
ORDER BY r.position, r.seq
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED;

-- name: take_dead
SELECT
    d.seq, d.attempts, d.redeliveries, d.reason, d.error, d.died_at,
    m.marks, m.format, m.payload, m.headers, m.sent_at, m.message_key, m.group_key, m.priority, m.own_id
FROM rowq_dead d
JOIN rowq_messages m ON m.seq = d.seq
WHERE d.queue = :queue
    AND d.due <= :now
ORDER BY d.due, d.seq
LIMIT :limit
FOR UPDATE OF d SKIP LOCKED;

-- name: take_due
-- Above a floor: while a snapshot still sees deleted rows, a query from the beginning walks over all of them.
SELECT s.seq, s.due, s.attempts, s.expires_at, s.error, m.priority
FROM rowq_scheduled s
JOIN rowq_messages m ON m.seq = s.seq
WHERE s.queue = :queue
    AND s.due > :floor
    AND s.due <= :now
ORDER BY s.due, s.seq
LIMIT :limit
FOR UPDATE OF s SKIP LOCKED;

-- name: take_lease_expired
SELECT seq
FROM rowq_leased
WHERE queue = :queue
    AND lease_until > :floor
    AND lease_until <= :now
ORDER BY lease_until, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: take_ended
SELECT seq, queue
FROM rowq_expiring
WHERE ends_at <= :now
ORDER BY ends_at, seq
LIMIT :limit;

-- name: next_times
-- When the queue's next message falls due, and when its next lease expires.
SELECT
    (SELECT MIN(due) FROM rowq_scheduled WHERE queue = :queue AND due > :now AND due <= :ahead),
    (SELECT MIN(lease_until) FROM rowq_leased WHERE queue = :queue AND lease_until > :now AND lease_until <= :ahead);

-- name: next_dead_times
SELECT
    (SELECT MIN(due) FROM rowq_dead WHERE queue = :queue AND due > :now AND due <= :ahead),
    (SELECT MIN(lease_until) FROM rowq_leased WHERE queue = :queue AND lease_until > :now AND lease_until <= :ahead);

-- name: read_bucket
SELECT tokens, filled_at
FROM rowq_buckets
WHERE queue = :queue
FOR UPDATE;

-- name: write_bucket
INSERT INTO rowq_buckets (queue, tokens, filled_at)
VALUES (:queue, :tokens, :filled_at)
ON CONFLICT (queue) DO UPDATE
SET tokens = excluded.tokens,
    filled_at = excluded.filled_at;
