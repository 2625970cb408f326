-- Holding on PostgreSQL.

-- fragment: error_contains
(:error IS NULL OR STRPOS(d.error, :error) > 0)
