-- The watermark on MariaDB (see mariadb/watermark.py). A table lock is granted when every transaction that has written to it has ended.

-- name: wait_for_locks
SET SESSION lock_wait_timeout = :seconds;

-- name: lock_history_as_reader
LOCK TABLES rowq_history READ;

-- name: lock_history_as_writer
LOCK TABLES rowq_history WRITE;

-- name: lock_audit_as_reader
LOCK TABLES rowq_audit READ;

-- name: lock_audit_as_writer
LOCK TABLES rowq_audit WRITE;

-- name: unlock_tables
UNLOCK TABLES;

-- name: see_uncommitted
-- For the next statement only.
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;

-- name: see_committed
-- Otherwise the gaps between the rows would be locked too.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- name: list_last_history
SELECT id FROM rowq_history ORDER BY id DESC LIMIT :limit;

-- name: list_last_audit
SELECT id FROM rowq_audit ORDER BY id DESC LIMIT :limit;

-- name: list_unlocked_history
SELECT id FROM rowq_history WHERE id BETWEEN :first AND :last FOR UPDATE SKIP LOCKED;

-- name: list_unlocked_audit
SELECT id FROM rowq_audit WHERE id BETWEEN :first AND :last FOR UPDATE SKIP LOCKED;
