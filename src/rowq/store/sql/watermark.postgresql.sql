-- The watermark on PostgreSQL: the last line is the last number drawn, committed or not.

-- name: last_line_history
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_history_ids;

-- name: last_line_audit
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_audit_ids;

-- name: list_writers_history
-- The writers, visible or not: the lock is taken before the first line is drawn, and released after the commit is visible.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation'
    AND mode = 'RowExclusiveLock'
    AND granted
    AND relation = CAST('rowq_history' AS REGCLASS)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: list_writers_audit
-- The writers, visible or not: the lock is taken before the first line is drawn, and released after the commit is visible.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation'
    AND mode = 'RowExclusiveLock'
    AND granted
    AND relation = CAST('rowq_audit' AS REGCLASS)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
