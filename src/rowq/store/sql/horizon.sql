-- The last line of each log, as far as it can be seen now.

-- name: last_line_history
SELECT COALESCE(MAX(id), 0) FROM rowq_history;

-- name: last_line_audit
SELECT COALESCE(MAX(id), 0) FROM rowq_audit;
