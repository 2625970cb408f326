-- The lines of each log, as far as they can be seen now.

-- name: last_line_history
SELECT COALESCE(MAX(id), 0) FROM rowq_history;

-- name: last_line_audit
SELECT COALESCE(MAX(id), 0) FROM rowq_audit;

-- name: landmark_history
-- The last line at or before one: its number, and what tells it from any other that might have that number in another history.
-- The hollow shell of a line tells nothing.
SELECT id, seq, finished_at FROM rowq_history WHERE id <= :line AND queue <> '' ORDER BY id DESC LIMIT 1;

-- name: landmark_audit
-- The last line at or before one: its number, and what tells it from any other that might have that number in another audit.
-- The hollow shell of a line tells nothing.
SELECT id, COALESCE(seq, 0), at FROM rowq_audit WHERE id <= :line AND queue <> '' ORDER BY id DESC LIMIT 1;
