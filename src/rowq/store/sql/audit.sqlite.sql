-- The audit on SQLite, where a row may be a run of lines.

-- fragment: audit_lines
rowq_audit_lines

-- fragment: audit_order
-- The lines of a row come in the order of its array. With the id, SQLite would sort all lines of the range before it gives the first.
run

-- fragment: lines_of_row
COALESCE(JSON_ARRAY_LENGTH(seqs), 1)
