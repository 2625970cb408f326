-- The audit on PostgreSQL, where a row may be a run of lines.

-- fragment: audit_lines
rowq_audit_lines

-- fragment: audit_order
run, id

-- fragment: lines_of_row
COALESCE(CARDINALITY(seqs), 1)

-- fragment: audit_run
-- The columns of a run, of lines that are grouped by seq / 64 and by all else that they have in common.
COUNT(*) AS lines,
CASE WHEN COUNT(*) = 1 THEN MIN(seq) ELSE -1 - MIN(seq) / 64 END AS lead,
CASE WHEN COUNT(*) > 1 THEN ARRAY_AGG(seq) END AS seqs
