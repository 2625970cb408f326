-- Copying on MariaDB.

-- name: list_bodies
-- Waits for messages sent by transactions that are still open: the next batch begins after them.
SELECT m.seq, m.queue, LENGTH(m.payload), m.seq, m.sent_at, m.own_id
FROM rowq_messages m
WHERE m.seq > :after
    AND m.seq <= :last
    AND m.queue IN (:queues[])
ORDER BY m.seq
LIMIT :limit
LOCK IN SHARE MODE;

-- name: find_entry
SELECT written_at
FROM rowq_kv
WHERE entry_hash = UNHEX(SHA2(:entry_key, 256));

-- name: write_entry
INSERT INTO rowq_kv (entry_hash, entry_head, entry_key, format, value, written_at, message_id)
SELECT UNHEX(SHA2(:entry_key, 256)), LEFT(CAST(:entry_key AS BINARY), 3000), :entry_key, :format, :value, :written_at, :message_id
FROM DUAL
ON DUPLICATE KEY UPDATE
    format = VALUES(format),
    value = VALUES(value),
    written_at = VALUES(written_at),
    message_id = VALUES(message_id);
