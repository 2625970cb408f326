-- Insights on MariaDB. A UNION would be materialized before its first row; two ranges of one index are walked instead.

-- fragment: contains
(:text IS NULL OR INSTR(m.payload, CAST(:text AS BINARY)) > 0 OR INSTR(p.error, :text) > 0)

-- fragment: is_reason
-- Reasons are stored as ASCII, which MariaDB refuses to compare with other text.
CONVERT(p.reason USING utf8mb4) COLLATE utf8mb4_bin = :reason

-- name: browse_ready
SELECT {body}, {ready_place}, p.ranking AS a, p.position AS b
FROM rowq_ready p FORCE INDEX (PRIMARY)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.ranking > :a OR (p.ranking = :a AND p.position > :b)) AND {filters}
ORDER BY p.ranking, p.position, p.seq
LIMIT :limit;

-- name: browse_scheduled
SELECT {body}, {scheduled_place}, p.due AS a, p.seq AS b
FROM rowq_scheduled p FORCE INDEX (rowq_scheduled_due)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.due > :a OR (p.due = :a AND p.seq > :b)) AND {filters}
ORDER BY p.due, p.seq
LIMIT :limit;

-- name: browse_leased
SELECT {body}, {leased_place}, p.lease_until AS a, p.seq AS b
FROM rowq_leased p FORCE INDEX (rowq_leased_until)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.lease_until > :a OR (p.lease_until = :a AND p.seq > :b)) AND {filters}
ORDER BY p.lease_until, p.seq
LIMIT :limit;

-- name: browse_blocked
SELECT {body}, {blocked_place}, p.group_key AS a, p.seq AS b
FROM rowq_blocked p FORCE INDEX (PRIMARY)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.group_key > :a OR (p.group_key = :a AND p.seq > :b)) AND {filters}
ORDER BY p.group_key, p.seq
LIMIT :limit;

-- name: browse_dead
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p FORCE INDEX (PRIMARY)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.seq > :b AND {dead_filters}
ORDER BY p.seq
LIMIT :limit;

-- name: browse_dead_newest
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p FORCE INDEX (rowq_dead_age)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.died_at < :a OR (p.died_at = :a AND p.seq < :b)) AND {dead_filters}
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit;

-- name: match_dead
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p FORCE INDEX (PRIMARY)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.seq > :b AND {dead_filters}
ORDER BY p.seq
LIMIT :limit;

-- name: match_dead_newest
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p FORCE INDEX (rowq_dead_age)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.died_at < :a OR (p.died_at = :a AND p.seq < :b)) AND {dead_filters}
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit;

-- name: list_newest_dead
SELECT reason, {beginning_of_error}, died_at, seq
FROM rowq_dead FORCE INDEX (rowq_dead_age)
WHERE queue = :queue
ORDER BY died_at DESC
LIMIT :limit;

-- name: browse_newest_dead
SELECT {body}, {dead_place}, p.seq AS a, p.seq AS b
FROM rowq_dead p FORCE INDEX (rowq_dead_age)
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit OFFSET :offset;

-- name: browse_finished
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p FORCE INDEX (rowq_history_age)
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.finished_at > :a OR (p.finished_at = :a AND p.id > :b)) AND {finished_filters}
ORDER BY p.finished_at, p.id
LIMIT :limit;

-- name: browse_finished_newest
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p FORCE INDEX (rowq_history_age)
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND (p.finished_at < :a OR (p.finished_at = :a AND p.id < :b)) AND {finished_filters}
ORDER BY p.finished_at DESC, p.id DESC
LIMIT :limit;

-- name: read_kv
-- By the beginning of the key, which fits into an index, and then by the whole key.
SELECT entry_key, format, value, written_at, message_id
FROM rowq_kv FORCE INDEX (rowq_kv_order)
WHERE entry_head >= LEFT(CAST(:low AS BINARY), 3000)
    AND entry_head <= LEFT(CAST(:high AS BINARY), 3000)
    AND entry_key >= :low
    AND entry_key < :high
ORDER BY entry_head, entry_hash
LIMIT :limit;

-- name: delete_kv
DELETE FROM rowq_kv
WHERE entry_hash = UNHEX(SHA2(:entry_key, 256));
