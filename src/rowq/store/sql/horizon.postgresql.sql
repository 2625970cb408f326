-- The horizon on PostgreSQL: what was drawn, whether or not it is committed.

-- name: last_line_history
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_history_ids;

-- name: last_line_audit
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM rowq_audit_ids;

-- name: draw_transaction
SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT);

-- name: oldest_open_transaction
SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT);
