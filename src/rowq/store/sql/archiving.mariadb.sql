-- Archiving on MariaDB.

-- name: insert_segment
-- An existing row is not changed.
INSERT INTO rowq_segments (lake, kind, segment, first_id, last_id, line_count, state, planned_at)
VALUES (:lake, :kind, :segment, :first, :last, :lines, 'intent', :now)
ON DUPLICATE KEY UPDATE segment = segment;
