-- Copying queues into another database. The source is read in order of seq and id, in batches; the target writes each batch together with
-- a mark of the progress, so that an interrupted copy continues where it ended.
--
-- A copied message has the seq of the source plus a base, which is drawn once per queue: this keeps the order of messages, and of the
-- positions of returned ones. Its public id is kept as an own id.

-- name: read_marks
SELECT name, value
FROM rowq_counters
WHERE name IN (:names[]);

-- name: lock_marks
SELECT name, value
FROM rowq_counters
WHERE name IN (:names[])
FOR UPDATE;

-- name: insert_mark
-- Two copies that begin at the same moment must not both draw a base.
INSERT INTO rowq_counters (name, value)
VALUES (:name, :seq);

-- name: offer_mark
-- If two processes write it at the same moment, the first one counts, and the other reads its value.
INSERT INTO rowq_counters (name, value)
VALUES (:name, :seq)
ON CONFLICT (name) DO NOTHING;

-- name: write_mark
INSERT INTO rowq_counters (name, value)
VALUES (:name, :seq)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: delete_marks
DELETE FROM rowq_counters
WHERE name IN (:names[]);

-- name: skip_seqs
UPDATE rowq_counters
SET value = value + :count
WHERE name = 'seq';

-- name: read_skipped
-- The last number that this transaction has skipped.
SELECT value
FROM rowq_counters
WHERE name = 'seq';

-- name: read_last_seq
SELECT value
FROM rowq_counters
WHERE name = 'seq';

-- name: read_ends
SELECT (SELECT MAX(id) FROM rowq_audit), (SELECT MAX(id) FROM rowq_history);

-- name: find_open_senders
-- Open transactions that have drawn seqs, if the database can tell: none with one writer at a time.
SELECT name
FROM rowq_counters
WHERE name = '';

-- name: count_running_leases
SELECT COUNT(*)
FROM rowq_leased
WHERE queue = :queue
    AND lease_until > :now;

-- name: list_bodies
SELECT m.seq, m.queue, LENGTH(m.payload), m.seq, m.sent_at, m.own_id
FROM rowq_messages m
WHERE m.seq > :after
    AND m.seq <= :last
    AND m.queue IN (:queues[])
ORDER BY m.seq
LIMIT :limit;

-- fragment: body
m.seq, m.sent_at, m.queue, m.format, m.payload, m.headers, m.message_key, m.group_key, m.priority,
    m.delay_ms, m.ttl_ms, m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys, m.own_id, m.marks

-- name: read_bodies
SELECT {body}
FROM rowq_messages m
WHERE m.seq IN (:seqs[])
ORDER BY m.seq;

-- name: place_ready
-- Like the hold_… queries of holding.sql, without a lock and without the body.
SELECT m.seq, m.marks, p.attempts, p.expires_at, p.error, p.position, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = m.seq AND p.seq = m.seq
WHERE m.seq IN (:seqs[]);

-- name: place_ready_moved
SELECT m.seq, m.marks, p.attempts, p.expires_at, p.error, p.position, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_moved v ON v.seq = m.seq
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = v.position AND p.seq = m.seq
WHERE m.seq IN (:seqs[]);

-- name: place_scheduled
SELECT m.seq, m.marks, p.attempts, p.expires_at, p.error, p.due, NULL, 0, NULL, NULL, NULL
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq IN (:seqs[]);

-- name: place_blocked
SELECT m.seq, m.marks, p.attempts, p.expires_at, p.error, p.due, NULL, 0, NULL, NULL, NULL
FROM rowq_messages m
JOIN rowq_blocked p ON p.queue = m.queue AND p.group_key = m.group_key AND p.seq = m.seq
WHERE m.seq IN (:seqs[]);

-- name: place_leased
SELECT
    p.seq, p.marks, p.attempts, p.expires_at, p.error, p.lease_until, p.reason, COALESCE(p.redeliveries, 0), p.died_at, p.consumer,
    p.leased_at
FROM rowq_leased p
WHERE p.seq IN (:seqs[]);

-- name: place_dead
SELECT m.seq, m.marks, p.attempts, NULL, p.error, p.due, p.reason, p.redeliveries, p.died_at, NULL, NULL
FROM rowq_messages m
JOIN rowq_dead p ON p.queue = m.queue AND p.seq = m.seq
WHERE m.seq IN (:seqs[]);

-- name: list_history
-- COALESCE keeps the databases from using the queue's index and sorting all of the queue for each batch.
SELECT h.id, h.queue, COALESCE(LENGTH(m.payload), 0), h.seq, h.sent_at, h.own_id
FROM rowq_history h
LEFT JOIN rowq_messages m ON m.seq = h.seq
WHERE h.id > :after
    AND h.id <= :last
    AND COALESCE(h.queue, '') IN (:queues[])
ORDER BY h.id
LIMIT :limit;

-- name: read_history
SELECT
    h.seq, h.queue, h.outcome, h.sent_at, h.leased_at, h.finished_at, h.attempts, h.consumer, h.error,
    h.message_key, h.group_key, h.priority, h.own_id,
    {body}
FROM rowq_history h
LEFT JOIN rowq_messages m ON m.seq = h.seq
WHERE h.id IN (:lines[])
ORDER BY h.id;

-- name: list_events
SELECT id, queue, at, seq, event, attempt, actor, detail
FROM {audit_lines} a
WHERE run > :after
    AND run < :last + 64
    AND id > :after
    AND id <= :last
    AND queue IN (:queues[])
ORDER BY {audit_order}
LIMIT :limit;

-- name: list_enqueued
SELECT id, queue, at, seq
FROM {audit_lines} a
WHERE run > :after
    AND run < :last + 64
    AND id > :after
    AND id <= :last
    AND event = 'enqueued'
    AND queue IN (:queues[])
ORDER BY {audit_order}
LIMIT :limit;

-- name: list_replaced
SELECT id, queue, at, seq
FROM rowq_audit
WHERE id > :after
    AND id <= :last
    AND event = 'replaced'
    AND queue IN (:queues[])
ORDER BY id
LIMIT :limit;

-- name: find_replaced
SELECT seq
FROM rowq_audit
WHERE seq IN (:seqs[])
    AND id > :after
    AND event = 'replaced';

-- name: list_gone_ids
SELECT id, seq, gone_at
FROM rowq_own_ids
WHERE queue = :queue
    AND gone_at >= 0;

-- name: find_ids
SELECT id, seq, queue, gone_at
FROM rowq_own_ids
WHERE id IN (:ids[]);

-- name: take_id
-- The id is free, or the message that had it is gone.
INSERT INTO rowq_own_ids (id, seq, queue)
VALUES (:id, :seq, :queue)
ON CONFLICT (id, queue) DO UPDATE
SET seq = excluded.seq,
    gone_at = NULL;

-- name: insert_gone_id
INSERT INTO rowq_own_ids (id, seq, queue, gone_at)
VALUES (:id, :seq, :queue, :gone_at)
ON CONFLICT (id, queue) DO NOTHING;

-- name: list_answers
-- Their ids begin with the queue's name and a slash; 0 is the next character.
SELECT id, at, fingerprint, answer
FROM rowq_requests
WHERE id >= :first
    AND id < :last;

-- name: insert_answer
INSERT INTO rowq_requests (id, at, fingerprint, answer)
VALUES (:id, :at, :fingerprint, :answer)
ON CONFLICT (id) DO NOTHING;

-- name: find_entry
SELECT written_at
FROM rowq_kv
WHERE entry_key = :entry_key;

-- name: write_entry
INSERT INTO rowq_kv (entry_key, format, value, written_at, message_id)
VALUES (:entry_key, :format, :value, :written_at, :message_id)
ON CONFLICT (entry_key) DO UPDATE
SET format = excluded.format,
    value = excluded.value,
    written_at = excluded.written_at,
    message_id = excluded.message_id;

-- name: count_between
-- By state, like count_states, for the messages in a range of seqs.
SELECT
    (SELECT COUNT(*) FROM rowq_ready WHERE queue = :queue AND seq BETWEEN :first AND :last),
    (SELECT COUNT(*) FROM rowq_scheduled WHERE queue = :queue AND seq BETWEEN :first AND :last),
    (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND seq BETWEEN :first AND :last AND reason IS NULL),
    (SELECT COUNT(*) FROM rowq_blocked WHERE queue = :queue AND seq BETWEEN :first AND :last),
    (SELECT COUNT(*) FROM rowq_dead WHERE queue = :queue AND seq BETWEEN :first AND :last)
        + (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND seq BETWEEN :first AND :last AND reason IS NOT NULL),
    (SELECT COUNT(*) FROM rowq_history WHERE queue = :queue AND seq BETWEEN :first AND :last);

-- name: count_later
SELECT COUNT(*)
FROM rowq_messages
WHERE seq > :last
    AND queue = :queue;
