-- How the audit is written and read, for the queries of all topics. Here a row is a line; elsewhere it may be a run of lines (decision 43).

-- fragment: audit_lines
-- A row for each line. A reader narrows the rows by an index before it looks at their lines: by `run`, which is the id of the row and at
-- most 63 more than that of a line, or by `lead`, its seq (see store/row.py).
(SELECT id AS run, seq AS lead, id, at, queue, seq, event, attempt, actor, detail FROM rowq_audit)

-- fragment: lines_of_row
1

-- fragment: audit_order
id
