-- Holding: locks the state rows of given messages and reads everything that the rules need. One query per state, all with the same columns.

-- fragment: terms
m.seq, m.queue, m.sent_at, m.message_key, m.group_key, m.priority, m.ttl_ms, m.deadline_ms,
    m.max_attempts, m.backoff, m.kv_keys, m.own_id

-- name: hold_ready
-- By the full primary key, which is known from the body unless the message returned to a queue with `order: ready`.
SELECT
    {terms},
    m.marks, r.attempts, r.expires_at, r.error, r.position, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_ready r ON r.queue = m.queue AND r.ranking = -m.priority AND r.position = m.seq AND r.seq = m.seq
WHERE m.seq IN (:seqs[])
ORDER BY m.seq
FOR UPDATE OF r;

-- name: hold_ready_moved
-- The others, which returned to a new position.
SELECT
    {terms},
    m.marks, r.attempts, r.expires_at, r.error, r.position, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_moved v ON v.seq = m.seq
JOIN rowq_ready r ON r.queue = m.queue AND r.ranking = -m.priority AND r.position = v.position AND r.seq = m.seq
WHERE m.seq IN (:seqs[])
ORDER BY m.seq
FOR UPDATE OF r;

-- name: hold_scheduled
SELECT
    {terms},
    m.marks, s.attempts, s.expires_at, s.error, s.due, NULL, 0, NULL, NULL, NULL
FROM rowq_scheduled s
JOIN rowq_messages m ON m.seq = s.seq
WHERE s.seq IN (:seqs[])
ORDER BY s.seq
FOR UPDATE OF s;

-- name: hold_blocked
SELECT
    {terms},
    m.marks, b.attempts, b.expires_at, b.error, b.due, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_blocked b ON b.queue = m.queue AND b.group_key = m.group_key AND b.seq = m.seq
WHERE m.seq IN (:seqs[])
ORDER BY m.seq
FOR UPDATE OF b;

-- name: find_waiting
-- Messages that are neither leased, dead nor finished: they must be waiting.
SELECT m.seq
FROM rowq_messages m
WHERE m.seq IN (:seqs[])
    AND NOT EXISTS (SELECT 1 FROM rowq_leased l WHERE l.seq = m.seq)
    AND NOT EXISTS (SELECT 1 FROM rowq_dead d WHERE d.queue = m.queue AND d.seq = m.seq)
    AND NOT EXISTS (SELECT 1 FROM rowq_history h WHERE h.seq = m.seq);

-- name: find_unfinished
SELECT m.seq
FROM rowq_messages m
WHERE m.seq IN (:seqs[])
    AND NOT EXISTS (SELECT 1 FROM rowq_history h WHERE h.seq = m.seq);

-- name: hold_leased
SELECT
    {terms},
    l.marks, l.attempts, l.expires_at, l.error, l.lease_until, l.reason, COALESCE(l.redeliveries, 0), l.died_at, l.consumer, l.leased_at
FROM rowq_leased l
JOIN rowq_messages m ON m.seq = l.seq
WHERE l.seq IN (:seqs[])
ORDER BY l.seq
FOR UPDATE OF l;

-- name: hold_dead
SELECT
    {terms},
    m.marks, d.attempts, NULL, d.error, d.due, d.reason, d.redeliveries, d.died_at, NULL, NULL
FROM rowq_messages m
JOIN rowq_dead d ON d.queue = m.queue AND d.seq = m.seq
WHERE m.seq IN (:seqs[])
ORDER BY m.seq
FOR UPDATE OF d;

-- name: find_own_id
-- A row for each queue that has a message of this id.
SELECT seq, queue, gone_at
FROM rowq_own_ids
WHERE id = :id;

-- name: delete_own_id
DELETE FROM rowq_own_ids
WHERE id = :id
    AND queue = :queue;

-- name: find_finished
SELECT seq
FROM rowq_history
WHERE seq IN (:seqs[]);

-- name: find_finished_own_ids
SELECT own_id
FROM rowq_history
WHERE seq IN (:seqs[])
    AND own_id IS NOT NULL;

-- name: find_finished_message
SELECT queue, sent_at, own_id
FROM rowq_history
WHERE seq = :seq;
