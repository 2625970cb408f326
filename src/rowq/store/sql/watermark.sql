-- The lines of each log that are visible now.

-- name: last_line_history
SELECT COALESCE(MAX(id), 0) FROM rowq_history;

-- name: last_line_audit
SELECT COALESCE(MAX(id), 0) FROM rowq_audit;

-- name: landmark_history
-- The last line at or before a given one: its number, and columns that distinguish it from a line with that number in another history.
-- Emptied lines are skipped.
SELECT id, seq, finished_at FROM rowq_history WHERE id <= :line AND queue <> '' ORDER BY id DESC LIMIT 1;

-- name: landmark_audit
-- The last line at or before a given one: its number, and columns that distinguish it from a line with that number in another audit.
-- Emptied lines are skipped.
SELECT id, COALESCE(seq, 0), at FROM rowq_audit WHERE id <= :line AND queue <> '' ORDER BY id DESC LIMIT 1;
