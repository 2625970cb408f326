-- Insights on PostgreSQL: a payload is searched as bytes. A row-value comparison walks the index and sorts only rows of the same time;
-- two arms would sort all rows.

-- fragment: contains
(:text IS NULL OR POSITION(CONVERT_TO(:text, 'UTF8') IN m.payload) > 0 OR STRPOS(p.error, :text) > 0)

-- fragment: error_contains
STRPOS(p.error, :error) > 0

-- fragment: beginning_of_error
SUBSTR(error, 1, CAST(:characters AS INTEGER))

-- name: browse_ready
SELECT {body}, {ready_place}, p.ranking AS a, p.position AS b
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.ranking, p.position) > (:a, :b) AND {filters}
ORDER BY p.ranking, p.position
LIMIT :limit;

-- name: browse_scheduled
SELECT {body}, {scheduled_place}, p.due AS a, p.seq AS b
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.due, p.seq) > (:a, :b) AND {filters}
ORDER BY p.due, p.seq
LIMIT :limit;

-- name: browse_leased
SELECT {body}, {leased_place}, p.lease_until AS a, p.seq AS b
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.lease_until, p.seq) > (:a, :b) AND {filters}
ORDER BY p.lease_until, p.seq
LIMIT :limit;

-- name: browse_blocked
SELECT {body}, {blocked_place}, p.group_key AS a, p.seq AS b
FROM rowq_blocked p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.group_key, p.seq) > (:a, :b) AND {filters}
ORDER BY p.group_key, p.seq
LIMIT :limit;

-- name: browse_dead_newest
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.died_at, p.seq) < (:a, :b) AND {dead_filters}
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit;

-- name: match_dead_newest
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.died_at, p.seq) < (:a, :b) AND {dead_filters}
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit;

-- name: browse_finished
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.finished_at, p.id) > (:a, :b) AND {finished_filters}
ORDER BY p.finished_at, p.id
LIMIT :limit;

-- name: browse_finished_newest
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.finished_at, p.id) < (:a, :b) AND {finished_filters}
ORDER BY p.finished_at DESC, p.id DESC
LIMIT :limit;

-- name: read_actions
-- Ordered by an expression without an index: otherwise PostgreSQL would scan all of the audit instead of sorting a handful of lines.
SELECT at, event, queue, seq, attempt, actor, detail
FROM rowq_audit
WHERE seq IS NULL
    AND event <> ''
    AND (:queue IS NULL OR queue = :queue)
ORDER BY id + 0 DESC
LIMIT :limit;
