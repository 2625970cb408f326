-- Archiving: lines of history and audit leave for a lake, a segment at a time. A segment is a range of line numbers, both ends included;
-- it is written down before the lake is touched, and its state says how far it has come: intent, committed, purged. An empty shell
-- (queue '') is no line.

-- name: list_segments
SELECT segment, first_id, last_id, line_count, state, planned_at, committed_at
FROM rowq_segments
WHERE lake = :lake
    AND kind = :kind
ORDER BY segment;

-- name: insert_segment
-- Of two that plan at the same moment the second waits here, and then finds what the first has planned.
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
-- How many lines there are in a range, up to a limit, and which is the last of them.
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
    FROM rowq_audit
    WHERE id BETWEEN :first AND :last
        AND queue <> ''
    ORDER BY id
    LIMIT :limit
) AS line;

-- name: list_history_lines
SELECT id, seq, queue
FROM rowq_history
WHERE id BETWEEN :first AND :last
    AND queue <> ''
ORDER BY id
LIMIT :limit;

-- name: list_audit_lines
SELECT id
FROM rowq_audit
WHERE id BETWEEN :first AND :last
    AND queue <> ''
ORDER BY id
LIMIT :limit;

-- name: find_last_publication
SELECT MAX(version)
FROM rowq_publications
WHERE writer = :writer;
