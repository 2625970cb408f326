-- The ledger of streams. rowq_streams is the lock: a transaction that changes a stream locks its row first. A batch is written once, in
-- the transaction that leases its messages; rowq_streamed holds the place of each message in it, until the batch is settled.

-- fragment: stream
s.name, s.queues, s.epoch, s.next_batch, s.acked_batch, s.floor, s.created_at, s.beat_at

-- name: insert_stream
INSERT INTO rowq_streams (name, queues, epoch, next_batch, acked_batch, floor, created_at, beat_at)
VALUES (:name, :queues, 0, 1, 0, 0, :created_at, :created_at)
ON CONFLICT (name) DO NOTHING;

-- name: lock_stream
SELECT {stream}, 0, 0
FROM rowq_streams s
WHERE s.name = :name
FOR UPDATE;

-- name: find_stream
SELECT {stream}, 0, 0
FROM rowq_streams s
WHERE s.name = :name;

-- name: list_streams
SELECT
    {stream},
    (SELECT COUNT(*) FROM rowq_stream_batches b WHERE b.stream = s.name AND b.acked_at IS NULL),
    (SELECT COUNT(*) FROM rowq_streamed t WHERE t.stream = s.name AND t.quarantined_at IS NULL)
FROM rowq_streams s
ORDER BY s.name;

-- name: advance_stream
UPDATE rowq_streams
SET queues = :queues,
    epoch = :epoch,
    next_batch = :next_batch,
    acked_batch = :acked_batch,
    floor = :floor,
    beat_at = :beat_at
WHERE name = :name;

-- name: beat_stream
UPDATE rowq_streams
SET beat_at = :beat_at
WHERE name = :name
    AND epoch = :epoch;

-- name: insert_batch
INSERT INTO rowq_stream_batches (stream, batch, messages, bytes, leased_at)
VALUES (:stream, :batch, :messages, :bytes, :leased_at);

-- name: insert_streamed
INSERT INTO rowq_streamed (stream, batch, place, seq, token)
VALUES (:stream, :batch, :place, :seq, :token);

-- name: find_batch_after
SELECT MIN(batch)
FROM rowq_stream_batches
WHERE stream = :stream
    AND batch > :after
    AND acked_at IS NULL;

-- name: count_ready_upto
-- Counts up to a limit: counting all of them would take long.
SELECT COUNT(*)
FROM (SELECT 1 FROM rowq_ready WHERE queue = :queue LIMIT :most) AS r;

-- name: list_batches
SELECT batch, messages
FROM rowq_stream_batches
WHERE stream = :stream
    AND batch > :after
    AND batch <= :upto
    AND acked_at IS NULL
ORDER BY batch;

-- name: list_unsettled
-- The receipts of the messages in some batches. Like the queries below it starts after the settled batches, whose deleted rows may remain.
SELECT seq, token
FROM rowq_streamed
WHERE stream = :stream
    AND batch > :after
    AND batch <= :upto
    AND quarantined_at IS NULL;

-- name: settle_batches
UPDATE rowq_stream_batches
SET acked_at = :acked_at
WHERE stream = :stream
    AND batch > :after
    AND batch <= :upto
    AND acked_at IS NULL;

-- name: revoke_batches
DELETE FROM rowq_stream_batches
WHERE stream = :stream
    AND batch > :after;

-- name: prune_batches
DELETE FROM rowq_stream_batches
WHERE stream = :stream
    AND batch <= :upto
    AND acked_at IS NOT NULL;

-- name: delete_streamed
DELETE FROM rowq_streamed
WHERE stream = :stream
    AND batch > :after
    AND batch <= :upto;

-- name: list_special_places
-- Places where a batch must not be cut, between messages of one group; and quarantined messages.
SELECT s.place, m.queue, m.group_key, s.quarantined_at
FROM rowq_streamed s
LEFT JOIN rowq_messages m ON m.seq = s.seq
WHERE s.stream = :stream
    AND s.batch = :batch
    AND (m.group_key IS NOT NULL OR s.quarantined_at IS NOT NULL)
ORDER BY s.place;

-- name: list_group_members
SELECT m.queue, m.group_key, s.seq
FROM rowq_streamed s
JOIN rowq_messages m ON m.seq = s.seq
WHERE s.stream = :stream
    AND s.batch = :batch
    AND s.quarantined_at IS NULL
    AND m.group_key IS NOT NULL
ORDER BY s.place;

-- name: find_heads
SELECT group_key, head
FROM rowq_group_heads
WHERE queue = :queue
    AND group_key IN (:groups[]);

-- name: read_slice
-- The token must be that of the lease in the ledger: a message that has moved on is left out.
SELECT
    s.place, s.seq, l.queue, l.attempts, l.leased_at,
    m.format, m.payload, m.headers, m.sent_at, m.message_key, m.group_key, m.priority, m.own_id
FROM rowq_streamed s
JOIN rowq_leased l ON l.seq = s.seq AND l.token = s.token
JOIN rowq_messages m ON m.seq = s.seq
WHERE s.stream = :stream
    AND s.batch = :batch
    AND s.place >= :first
    AND s.place <= :last
    AND s.quarantined_at IS NULL
ORDER BY s.place;

-- name: find_streamed
SELECT seq, stream, batch
FROM rowq_streamed
WHERE seq IN (:seqs[])
    AND quarantined_at IS NULL;

-- name: find_in_batch
SELECT s.seq, s.quarantined_at
FROM rowq_streamed s
WHERE s.stream = :stream
    AND s.batch = :batch
    AND s.seq IN (:seqs[]);

-- name: find_streamed_of_queue
SELECT s.stream
FROM rowq_leased l
JOIN rowq_streamed s ON s.seq = l.seq
WHERE l.queue = :queue
    AND l.lease_until = :lease_until
    AND s.quarantined_at IS NULL
LIMIT 1;

-- name: quarantine_streamed
UPDATE rowq_streamed
SET quarantined_at = :quarantined_at
WHERE stream = :stream
    AND batch = :batch
    AND seq IN (:seqs[])
    AND quarantined_at IS NULL;

-- name: hold_until
UPDATE rowq_leased
SET lease_until = :lease_until
WHERE seq IN (:seqs[]);

-- name: list_followers
-- The messages blocked behind the heads of some groups, up to a limit.
SELECT b.group_key, b.seq, b.due, b.expires_at, LENGTH(m.payload)
FROM rowq_blocked b
JOIN rowq_messages m ON m.seq = b.seq
WHERE b.queue = :queue
    AND b.group_key IN (:groups[])
ORDER BY b.group_key, b.seq
LIMIT :limit;

-- name: take_followers
SELECT b.seq, b.group_key, b.due, b.attempts, b.expires_at, b.error, m.marks
FROM rowq_messages m
JOIN rowq_blocked b ON b.queue = m.queue AND b.group_key = m.group_key AND b.seq = m.seq
WHERE m.seq IN (:seqs[])
ORDER BY m.seq
FOR UPDATE OF b SKIP LOCKED;

-- name: measure_lag
SELECT
    (SELECT COUNT(*) FROM rowq_ready WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_scheduled WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_blocked WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NULL),
    (SELECT m.sent_at FROM rowq_messages m WHERE m.seq = (SELECT MIN(seq) FROM rowq_ready WHERE queue = :queue));
