-- The horizon on PostgreSQL: the last line is what was drawn, whether or not it is committed.

-- name: last_line_history
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_history_ids;

-- name: last_line_audit
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_audit_ids;

-- name: list_writers_history
-- Who writes to it, seen or not: a lock is taken before the first line, and given back after a commit can be seen.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation'
    AND mode = 'RowExclusiveLock'
    AND granted
    AND relation = CAST('rowq_history' AS REGCLASS)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: list_writers_audit
-- Who writes to it, seen or not: a lock is taken before the first line, and given back after a commit can be seen.
SELECT DISTINCT virtualtransaction
FROM pg_locks
WHERE locktype = 'relation'
    AND mode = 'RowExclusiveLock'
    AND granted
    AND relation = CAST('rowq_audit' AS REGCLASS)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
