-- Moving on MariaDB.

-- name: audit_enqueued_listed
-- Like make_ready_listed.
INSERT INTO rowq_audit (at, queue, seq, event, actor)
SELECT sent_at, queue, seq, 'enqueued', :actor
FROM rowq_messages
WHERE seq IN (:seqs[]);

-- name: delete_ready_in_a_row
-- Consecutive positions, all of them locked by this transaction. Takes half the time of a list, and stops at the limit: the row after the
-- last one may be locked by another transaction, and the statement would wait for it.
DELETE FROM rowq_ready
WHERE queue = :queue
    AND ranking = :ranking
    AND position BETWEEN :first AND :last
LIMIT :limit;

-- name: delete_leased_in_a_row
DELETE FROM rowq_leased
WHERE seq BETWEEN :first AND :last
LIMIT :limit;

-- name: find_following
-- FOR UPDATE reads the current rows: an application's transaction may have an older snapshot, and a message that it does not see would
-- never be promoted. The head is read, though it always exists: from the key alone MariaDB would scan all groups of the queue.
SELECT
    h.group_key,
    (
        SELECT b.seq
        FROM rowq_blocked b
        WHERE b.queue = h.queue
            AND b.group_key = h.group_key
        ORDER BY b.seq
        LIMIT 1
        FOR UPDATE
    )
FROM rowq_group_heads h
WHERE h.queue = :queue
    AND h.group_key IN (:groups[])
    AND h.head >= 0
ORDER BY h.group_key
FOR UPDATE;

-- name: copy_to_kv
INSERT INTO rowq_kv (entry_hash, entry_head, entry_key, format, value, written_at, message_id)
SELECT UNHEX(SHA2(:entry_key, 256)), LEFT(CAST(:entry_key AS BINARY), 3000), :entry_key, format, payload, :written_at, :message_id
FROM rowq_messages
WHERE seq = :seq
ON DUPLICATE KEY UPDATE
    format = VALUES(format),
    value = VALUES(value),
    written_at = VALUES(written_at),
    message_id = VALUES(message_id);
