-- Moving: from one state table into another. The state row is the lock: a transaction deletes a body only after it has locked the message's
-- state row. Rows are locked in the order leased or dead, keys, group heads, waiting rows.

-- name: insert_ready
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts, expires_at, error)
VALUES (:queue, :ranking, :position, :seq, :attempts, :expires_at, :error);

-- name: insert_moved
INSERT INTO rowq_moved (seq, position)
VALUES (:seq, :position);

-- name: delete_moved
DELETE FROM rowq_moved
WHERE seq IN (:seqs[]);

-- name: insert_scheduled
INSERT INTO rowq_scheduled (queue, due, seq, attempts, expires_at, error)
VALUES (:queue, :due, :seq, :attempts, :expires_at, :error);

-- name: insert_blocked
INSERT INTO rowq_blocked (queue, group_key, seq, due, attempts, expires_at, error)
VALUES (:queue, :group_key, :seq, :due, :attempts, :expires_at, :error);

-- name: insert_leased
INSERT INTO rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, expires_at, error, marks)
VALUES (:seq, :queue, :lease_until, :token, :consumer, :leased_at, :attempts, :expires_at, :error, :marks);

-- name: insert_leased_dead
INSERT INTO rowq_leased (
    seq, queue, lease_until, token, consumer, leased_at, attempts, error, marks, reason, died_at, redeliveries
)
VALUES (
    :seq, :queue, :lease_until, :token, :consumer, :leased_at, :attempts, :error, :marks, :reason, :died_at, :redeliveries
);

-- name: insert_dead
INSERT INTO rowq_dead (queue, seq, due, attempts, redeliveries, reason, error, died_at)
VALUES (:queue, :seq, :due, :attempts, :redeliveries, :reason, :error, :died_at);

-- name: insert_history
INSERT INTO rowq_history (
    seq, queue, outcome, sent_at, leased_at, finished_at, attempts, consumer, error, message_key, group_key, priority, own_id
)
VALUES (
    :seq, :queue, :outcome, :sent_at, :leased_at, :finished_at, :attempts, :consumer, :error, :message_key, :group_key, :priority, :own_id
);

-- name: insert_audit
INSERT INTO rowq_audit (at, queue, seq, event, attempt, actor, detail)
VALUES (:at, :queue, :seq, :event, :attempt, :actor, :detail);

-- name: audit_enqueued
-- The three events of most messages, written for many at once from what is already in the tables.
INSERT INTO rowq_audit (at, queue, seq, event, actor)
SELECT :at, :queue, seq, 'enqueued', :actor
FROM rowq_messages
WHERE seq BETWEEN :first AND :last;

-- name: audit_delivered
INSERT INTO rowq_audit (at, queue, seq, event, attempt, actor)
SELECT leased_at, queue, seq, 'delivered', COALESCE(redeliveries, attempts), COALESCE(consumer, :actor)
FROM rowq_leased
WHERE seq IN (:seqs[]);

-- name: audit_acked
INSERT INTO rowq_audit (at, queue, seq, event, attempt, actor)
SELECT :at, queue, seq, 'acked', COALESCE(redeliveries, attempts), COALESCE(consumer, :actor)
FROM rowq_leased
WHERE seq IN (:seqs[]);

-- name: insert_expiring
INSERT INTO rowq_expiring (seq, queue, ends_at)
VALUES (:seq, :queue, :ends_at)
ON CONFLICT (seq) DO UPDATE SET ends_at = excluded.ends_at;

-- name: delete_ready
DELETE FROM rowq_ready
WHERE queue = :queue
    AND ranking = :ranking
    AND position = :position
    AND seq = :seq;

-- name: delete_ready_run
-- All rows between two positions of one priority. Only for a dialect that takes contiguous rows.
DELETE FROM rowq_ready
WHERE queue = :queue
    AND ranking = :ranking
    AND position BETWEEN :first AND :last;

-- name: delete_scheduled
DELETE FROM rowq_scheduled
WHERE seq IN (:seqs[]);

-- name: delete_leased
DELETE FROM rowq_leased
WHERE seq IN (:seqs[]);

-- name: delete_blocked
DELETE FROM rowq_blocked
WHERE queue = :queue
    AND group_key = :group_key
    AND seq = :seq;

-- name: delete_dead
DELETE FROM rowq_dead
WHERE queue = :queue
    AND seq = :seq;

-- name: delete_history
DELETE FROM rowq_history
WHERE seq IN (:seqs[]);

-- name: delete_message
DELETE FROM rowq_messages
WHERE seq IN (:seqs[]);

-- name: delete_expiring
DELETE FROM rowq_expiring
WHERE seq IN (:seqs[]);

-- name: leave_own_id
UPDATE rowq_own_ids
SET gone_at = :gone_at
WHERE id = :id
    AND queue = :queue;

-- name: reserve_group
-- A row to lock, even for an empty group: head 0 means none. An existing row is locked and left unchanged.
INSERT INTO rowq_group_heads (queue, group_key, head)
VALUES (:queue, :group_key, 0)
ON CONFLICT (queue, group_key) DO UPDATE SET head = rowq_group_heads.head;

-- name: lock_group_heads
SELECT group_key, head
FROM rowq_group_heads
WHERE queue = :queue
    AND group_key IN (:groups[])
ORDER BY group_key
FOR UPDATE;

-- name: find_following
-- The next message of each group: a correlated MIN is one index seek, a GROUP BY would read the whole group. Run after the lock was taken:
-- in the same statement it would not see what the previous holder has written.
SELECT
    h.group_key,
    (SELECT MIN(b.seq) FROM rowq_blocked b WHERE b.queue = h.queue AND b.group_key = h.group_key)
FROM rowq_group_heads h
WHERE h.queue = :queue
    AND h.group_key IN (:groups[]);

-- name: set_group_head
INSERT INTO rowq_group_heads (queue, group_key, head)
VALUES (:queue, :group_key, :head)
ON CONFLICT (queue, group_key) DO UPDATE SET head = excluded.head;

-- name: delete_group_head
DELETE FROM rowq_group_heads
WHERE queue = :queue
    AND group_key = :group_key;

-- name: copy_to_kv
INSERT INTO rowq_kv (entry_key, format, value, written_at, message_id)
SELECT :entry_key, format, payload, :written_at, :message_id
FROM rowq_messages
WHERE seq = :seq
ON CONFLICT (entry_key) DO UPDATE
SET format = excluded.format,
    value = excluded.value,
    written_at = excluded.written_at,
    message_id = excluded.message_id;
