-- Sending: writes a body to rowq_messages, and one row to the state table in which the message starts.
--
-- FOR UPDATE is for servers; SQLite has one writer, and its dialect removes the clause.

-- name: draw_seqs
UPDATE rowq_counters
SET value = value + :count
WHERE name = 'seq'
RETURNING value;

-- name: insert_message
INSERT INTO rowq_messages (
    seq, sent_at, queue, format, payload, headers, message_key, group_key, priority,
    delay_ms, ttl_ms, deadline_ms, max_attempts, backoff, kv_keys, own_id, marks
)
VALUES (
    :seq, :sent_at, :queue, :format, :payload, :headers, :message_key, :group_key, :priority,
    :delay_ms, :ttl_ms, :deadline_ms, :max_attempts, :backoff, :kv_keys, :own_id, :marks
);

-- name: insert_plain_message
-- Most messages have only a payload and a priority; binding eleven NULLs for each is surprisingly expensive.
INSERT INTO rowq_messages (seq, sent_at, queue, format, payload, priority, delay_ms, marks)
VALUES (:seq, :sent_at, :queue, :format, :payload, :priority, 0, 0);

-- name: make_ready
-- Makes messages ready whose bodies were just written.
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
SELECT queue, -priority, seq, seq, 0
FROM rowq_messages
WHERE seq BETWEEN :first AND :last;

-- name: replace_body
UPDATE rowq_messages
SET format = :format,
    payload = :payload,
    headers = :headers
WHERE seq = :seq;

-- name: find_own_ids
SELECT id
FROM rowq_own_ids
WHERE id IN (:ids[])
    AND queue = :queue;

-- name: insert_own_id
INSERT INTO rowq_own_ids (id, seq, queue)
VALUES (:id, :seq, :queue);

-- name: reserve_key
-- A row to lock, even for a key without a waiting message: seq 0 means none. An existing row is locked and left unchanged.
INSERT INTO rowq_waiting_keys (queue, message_key, seq)
VALUES (:queue, :message_key, 0)
ON CONFLICT (queue, message_key) DO UPDATE SET seq = rowq_waiting_keys.seq;

-- name: lock_waiting_keys
SELECT message_key, seq
FROM rowq_waiting_keys
WHERE queue = :queue
    AND message_key IN (:keys[])
ORDER BY message_key
FOR UPDATE;

-- name: hold_key
INSERT INTO rowq_waiting_keys (queue, message_key, seq)
VALUES (:queue, :message_key, :seq)
ON CONFLICT (queue, message_key) DO UPDATE SET seq = excluded.seq;

-- name: free_key
-- Only while it names this message: a newer one may hold the key now.
DELETE FROM rowq_waiting_keys
WHERE queue = :queue
    AND message_key = :message_key
    AND seq = :seq;

-- name: find_requests
SELECT id, fingerprint, answer
FROM rowq_requests
WHERE id IN (:ids[]);

-- name: insert_request
INSERT INTO rowq_requests (id, at, fingerprint, answer)
VALUES (:id, :at, :fingerprint, :answer);

-- name: count_depth
-- Stops counting at the limit: a full queue of millions is refused as quickly as a small one.
SELECT
    (SELECT COUNT(*) FROM (SELECT 1 FROM rowq_ready WHERE queue = :queue LIMIT :most) AS r)
    + (SELECT COUNT(*) FROM (SELECT 1 FROM rowq_scheduled WHERE queue = :queue LIMIT :most) AS s)
    + (SELECT COUNT(*) FROM (SELECT 1 FROM rowq_leased WHERE queue = :queue AND reason IS NULL LIMIT :most) AS l)
    + (SELECT COUNT(*) FROM (SELECT 1 FROM rowq_blocked WHERE queue = :queue LIMIT :most) AS b);

-- name: find_origins
SELECT seq, sent_at, queue, own_id FROM rowq_messages WHERE seq IN (:seqs[])
UNION
SELECT seq, sent_at, queue, own_id FROM rowq_history WHERE seq IN (:seqs[]);

-- name: find_told_origins
-- Includes messages that only the audit still knows.
SELECT seq, sent_at FROM rowq_messages WHERE seq IN (:seqs[])
UNION
SELECT seq, sent_at FROM rowq_history WHERE seq IN (:seqs[])
UNION
SELECT seq, at FROM {audit_lines} a WHERE lead IN (:leads[]) AND seq IN (:seqs[]) AND event = 'enqueued';
