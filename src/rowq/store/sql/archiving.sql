-- Archiving: lines of history and audit move to a lake, one segment at a time. A segment is a range of line numbers, both ends included;
-- it is recorded before the lake is written, and its state is intent, committed or purged. An emptied line (queue '') does not count
-- as a line.

-- name: list_segments
SELECT segment, first_id, last_id, line_count, state, planned_at, committed_at
FROM rowq_segments
WHERE lake = :lake
    AND kind = :kind
ORDER BY segment;

-- name: insert_segment
-- If two processes plan at the same moment, the second waits here and then finds the first one's plan.
INSERT INTO rowq_segments (lake, kind, segment, first_id, last_id, line_count, state, planned_at)
VALUES (:lake, :kind, :segment, :first, :last, :lines, 'intent', :now)
ON CONFLICT (lake, kind, segment) DO NOTHING;

-- name: commit_segment
UPDATE rowq_segments
SET state = 'committed',
    line_count = :lines,
    committed_at = :now
WHERE lake = :lake
    AND kind = :kind
    AND segment = :segment
    AND state = 'intent';

-- name: end_segment
UPDATE rowq_segments
SET state = 'purged'
WHERE lake = :lake
    AND kind = :kind
    AND segment = :segment
    AND state = 'committed';

-- name: measure_history
-- How many lines a range has, up to a limit, and the number of the last one counted.
SELECT COUNT(*), MAX(line.id)
FROM (
    SELECT id
    FROM rowq_history
    WHERE id BETWEEN :first AND :last
        AND queue <> ''
    ORDER BY id
    LIMIT :limit
) AS line;

-- name: measure_audit
SELECT COUNT(*), MAX(line.id)
FROM (
    SELECT id
    FROM {audit_lines} a
    WHERE run BETWEEN :first AND :last + 63
        AND id BETWEEN :first AND :last
        AND queue <> ''
    ORDER BY {audit_order}
    LIMIT :limit
) AS line;

-- name: list_history_lines
SELECT id, seq, queue
FROM rowq_history
WHERE id BETWEEN :first AND :last
    AND queue <> ''
ORDER BY id
LIMIT :limit;

-- name: list_audit_rows
-- By the last line of each: a row that the range ends within belongs to the next.
SELECT id, {lines_of_row}
FROM rowq_audit
WHERE id BETWEEN :first AND :last
    AND queue <> ''
ORDER BY id
LIMIT :limit;

-- name: find_last_publication
SELECT MAX(version)
FROM rowq_publications
WHERE writer = :writer;
