-- Insights on PostgreSQL: a payload is bytes, and is searched as bytes.

-- fragment: contains
(:text IS NULL OR POSITION(CONVERT_TO(:text, 'UTF8') IN m.payload) > 0 OR STRPOS(p.error, :text) > 0)
