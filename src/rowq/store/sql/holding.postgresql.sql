-- Holding on PostgreSQL.

-- fragment: error_contains
(:error IS NULL OR STRPOS(d.error, :error) > 0)

-- fragment: beginning_of_error
SUBSTR(d.error, 1, CAST(:characters AS INTEGER))
