-- Publishing: any number of writers stage messages in rowq_staged; one transaction turns them into messages, exactly once.
--
-- A plain message needs only a body and a row in rowq_ready: no key, group, id, deadline or undelivered keys (marks), no delay and no
-- TTL. Plain messages are copied inside the database; all others are sent the usual way.

-- fragment: columns
queue, format, payload, headers, message_key, group_key, priority, delay_ms, ttl_ms, deadline_ms, max_attempts, backoff, kv_keys,
    own_id, marks

-- fragment: is_plain
marks = 0 AND delay_ms = 0 AND ttl_ms IS NULL

-- name: insert_staged
INSERT INTO rowq_staged (
    stage, place, staged_at, queue, format, payload, headers, message_key, group_key, priority,
    delay_ms, ttl_ms, deadline_ms, max_attempts, backoff, kv_keys, own_id, marks
)
VALUES (
    :stage, :place, :staged_at, :queue, :format, :payload, :headers, :message_key, :group_key, :priority,
    :delay_ms, :ttl_ms, :deadline_ms, :max_attempts, :backoff, :kv_keys, :own_id, :marks
);

-- name: insert_publication
INSERT INTO rowq_publications (writer, version, messages, published_at)
VALUES (:writer, :version, :messages, :published_at)
ON CONFLICT DO NOTHING;

-- name: forget_publications
DELETE FROM rowq_publications
WHERE writer = :writer
    AND version <= :upto;

-- name: count_staged
SELECT COUNT(*)
FROM rowq_staged
WHERE stage = :stage;

-- name: survey_stage
-- What a stage holds for each queue: how many plain messages, how many in all, and the highest priority.
SELECT queue,
    SUM(CASE WHEN {is_plain} THEN 1 ELSE 0 END),
    COUNT(*),
    MAX(priority)
FROM rowq_staged
WHERE stage = :stage
GROUP BY queue;

-- name: list_staged_plain
-- The places of the next plain messages; the batch after this one begins behind the last of them.
SELECT place
FROM rowq_staged
WHERE stage = :stage
    AND queue = :queue
    AND place > :after
    AND {is_plain}
ORDER BY place
LIMIT :limit;

-- name: publish_messages
-- In the order of staging, with consecutive seqs.
INSERT INTO rowq_messages (seq, sent_at, {columns})
SELECT :before + ROW_NUMBER() OVER (ORDER BY place), :now, {columns}
FROM rowq_staged
WHERE stage = :stage
    AND place > :after
    AND place <= :upto
    AND queue = :queue
    AND {is_plain};

-- name: list_staged
-- Messages that are sent the usual way: all of these queues, and those of other queues that are not plain.
SELECT place, {columns}
FROM rowq_staged
WHERE stage = :stage
    AND place > :after
    AND (queue IN (:queues[]) OR NOT ({is_plain}))
ORDER BY place
LIMIT :limit;

-- name: delete_staged
DELETE FROM rowq_staged
WHERE stage = :stage;

-- name: list_old_staged
SELECT stage, place
FROM rowq_staged
WHERE staged_at <= :cutoff
ORDER BY staged_at
LIMIT :limit;

-- name: delete_staged_row
DELETE FROM rowq_staged
WHERE stage = :stage
    AND place = :place;
