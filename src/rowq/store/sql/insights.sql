-- Insights: the reading side. Runs on connections of its own and never blocks a writer. In every query m is the message and p its row in
-- a state table.

-- fragment: body
m.seq, m.queue, m.sent_at, m.format, m.payload, m.headers, m.message_key, m.group_key, m.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys, m.own_id

-- fragment: ready_place
p.attempts, p.error, p.expires_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: scheduled_place
p.attempts, p.error, p.expires_at, p.due, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: blocked_place
p.attempts, p.error, p.expires_at, p.due, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- fragment: leased_place
p.attempts, p.error, p.expires_at, NULL, p.lease_until, p.leased_at, p.consumer, p.reason, p.died_at, NULL, NULL

-- fragment: dead_place
p.attempts, p.error, NULL, p.due, NULL, NULL, NULL, p.reason, p.died_at, NULL, NULL

-- fragment: finished
p.seq, p.queue, p.sent_at, m.format, m.payload, m.headers, p.message_key, p.group_key, p.priority, m.ttl_ms,
    m.sent_at + m.deadline_ms, m.max_attempts, m.backoff, m.kv_keys, p.own_id,
    p.attempts, p.error, NULL, NULL, NULL, p.leased_at, p.consumer, NULL, NULL, p.outcome, p.finished_at

-- fragment: filters
(:message_key IS NULL OR m.message_key = :message_key)
    AND (:group_key IS NULL OR m.group_key = :group_key)
    AND (:sent_after IS NULL OR m.sent_at >= :sent_after)
    AND (:sent_before IS NULL OR m.sent_at < :sent_before)
    AND {contains}

-- fragment: finished_filters
(:message_key IS NULL OR p.message_key = :message_key)
    AND (:group_key IS NULL OR p.group_key = :group_key)
    AND (:sent_after IS NULL OR p.sent_at >= :sent_after)
    AND (:sent_before IS NULL OR p.sent_at < :sent_before)
    AND {contains}

-- fragment: contains
(:text IS NULL OR INSTR(CAST(m.payload AS TEXT), :text) > 0 OR INSTR(p.error, :text) > 0)

-- fragment: dead_filters
{filters}
    AND (:reason IS NULL OR {is_reason})
    AND (:error IS NULL OR {error_contains})
    AND (:died_before IS NULL OR p.died_at < :died_before)
    AND (:died_after IS NULL OR p.died_at > :died_after)

-- fragment: is_reason
p.reason = :reason

-- fragment: error_contains
INSTR(p.error, :error) > 0

-- fragment: beginning_of_error
SUBSTR(error, 1, :characters)

-- name: browse_ready
-- Two arms instead of a row-value comparison, so that every database walks the index from the cursor on.
SELECT {body}, {ready_place}, p.ranking AS a, p.position AS b
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.ranking = :a AND p.position > :b AND {filters}
UNION ALL
SELECT {body}, {ready_place}, p.ranking AS a, p.position AS b
FROM rowq_ready p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.ranking > :a AND {filters}
ORDER BY a, b
LIMIT :limit;

-- name: browse_scheduled
SELECT {body}, {scheduled_place}, p.due AS a, p.seq AS b
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.due = :a AND p.seq > :b AND {filters}
UNION ALL
SELECT {body}, {scheduled_place}, p.due AS a, p.seq AS b
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.due > :a AND {filters}
ORDER BY a, b
LIMIT :limit;

-- name: browse_leased
SELECT {body}, {leased_place}, p.lease_until AS a, p.seq AS b
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.lease_until = :a AND p.seq > :b AND {filters}
UNION ALL
SELECT {body}, {leased_place}, p.lease_until AS a, p.seq AS b
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.lease_until > :a AND {filters}
ORDER BY a, b
LIMIT :limit;

-- name: browse_blocked
SELECT {body}, {blocked_place}, p.group_key AS a, p.seq AS b
FROM rowq_blocked p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.group_key = :a AND p.seq > :b AND {filters}
UNION ALL
SELECT {body}, {blocked_place}, p.group_key AS a, p.seq AS b
FROM rowq_blocked p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.group_key > :a AND {filters}
ORDER BY a, b
LIMIT :limit;

-- name: browse_dead
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.seq > :b AND {dead_filters}
ORDER BY p.seq
LIMIT :limit;

-- name: browse_dead_newest
-- The most recently dead first.
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.died_at = :a AND p.seq < :b AND {dead_filters}
UNION ALL
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.died_at < :a AND {dead_filters}
ORDER BY a DESC, b DESC
LIMIT :limit;

-- name: match_dead
-- For a page with a fingerprint, a redrive and a deletion. In the order of sending; the time of death makes a place in both orders. Only what the caller needs
-- for a fingerprint: it may reject most of these rows, and a body may be large.
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.seq > :b AND {dead_filters}
ORDER BY p.seq
LIMIT :limit;

-- name: match_dead_newest
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.died_at = :a AND p.seq < :b AND {dead_filters}
UNION ALL
SELECT p.died_at AS a, p.seq AS b, {beginning_of_error}
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.died_at < :a AND {dead_filters}
ORDER BY a DESC, b DESC
LIMIT :limit;

-- name: read_dead
SELECT {body}, {dead_place}, p.died_at AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue
    AND p.seq IN (:seqs[]);

-- name: browse_newest_dead
SELECT {body}, {dead_place}, p.seq AS a, p.seq AS b
FROM rowq_dead p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue
ORDER BY p.died_at DESC, p.seq DESC
LIMIT :limit OFFSET :offset;

-- name: list_newest_dead
-- Grouped by the caller: a database takes several times as long to group long texts.
SELECT reason, {beginning_of_error}, died_at, seq
FROM rowq_dead
WHERE queue = :queue
ORDER BY died_at DESC
LIMIT :limit;

-- name: find_dead_examples
SELECT d.seq, d.error, m.sent_at, m.own_id
FROM rowq_dead d
JOIN rowq_messages m ON m.seq = d.seq
WHERE d.queue = :queue
    AND d.seq IN (:seqs[]);

-- name: browse_finished
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.finished_at = :a AND p.id > :b AND {finished_filters}
UNION ALL
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.finished_at > :a AND {finished_filters}
ORDER BY a, b
LIMIT :limit;

-- name: browse_finished_newest
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.finished_at = :a AND p.id < :b AND {finished_filters}
UNION ALL
SELECT {finished}, p.finished_at AS a, p.id AS b
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.queue = :queue AND p.finished_at < :a AND {finished_filters}
ORDER BY a DESC, b DESC
LIMIT :limit;

-- name: get_ready
SELECT {body}, {ready_place}, 0, 0
FROM rowq_messages m
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = m.seq AND p.seq = m.seq
WHERE m.seq = :seq;

-- name: get_ready_moved
SELECT {body}, {ready_place}, 0, 0
FROM rowq_moved v
JOIN rowq_messages m ON m.seq = v.seq
JOIN rowq_ready p ON p.queue = m.queue AND p.ranking = -m.priority AND p.position = v.position AND p.seq = m.seq
WHERE v.seq = :seq;

-- name: get_scheduled
SELECT {body}, {scheduled_place}, 0, 0
FROM rowq_scheduled p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq = :seq;

-- name: get_leased
SELECT {body}, {leased_place}, 0, 0
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq = :seq;

-- name: get_leases
SELECT {body}, {leased_place}, 0, 0
FROM rowq_leased p
JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq IN (:seqs[]);

-- name: get_blocked
SELECT {body}, {blocked_place}, 0, 0
FROM rowq_messages m
JOIN rowq_blocked p ON p.queue = m.queue AND p.group_key = m.group_key AND p.seq = m.seq
WHERE m.seq = :seq;

-- name: get_dead
SELECT {body}, {dead_place}, 0, 0
FROM rowq_messages m
JOIN rowq_dead p ON p.queue = m.queue AND p.seq = m.seq
WHERE m.seq = :seq;

-- name: get_finished
SELECT {finished}, 0, 0
FROM rowq_history p
LEFT JOIN rowq_messages m ON m.seq = p.seq
WHERE p.seq = :seq;

-- name: count_states
SELECT
    (SELECT COUNT(*) FROM rowq_ready WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_scheduled WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NULL),
    (SELECT COUNT(*) FROM rowq_blocked WHERE queue = :queue),
    (SELECT COUNT(*) FROM rowq_dead WHERE queue = :queue)
        + (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NOT NULL),
    (SELECT COUNT(*) FROM rowq_history WHERE queue = :queue),
    (SELECT m.sent_at FROM rowq_messages m WHERE m.seq = (SELECT MIN(seq) FROM rowq_ready WHERE queue = :queue));

-- name: count_ends
-- What count_states does not distinguish: how finished messages ended, and which dead letters are not due for delivery or are leased.
SELECT
    (SELECT COUNT(*) FROM rowq_history WHERE queue = :queue AND outcome = 'expired'),
    (SELECT COUNT(*) FROM rowq_history WHERE queue = :queue AND outcome = 'failed'),
    (SELECT COUNT(*) FROM rowq_dead WHERE queue = :queue AND due IS NULL),
    (SELECT COUNT(*) FROM rowq_leased WHERE queue = :queue AND reason IS NOT NULL);

-- name: read_audit
SELECT at, event, queue, seq, attempt, actor, detail
FROM {audit_lines} a
WHERE lead IN (:leads[])
    AND seq = :seq
ORDER BY id;

-- name: tally_audit
-- By the primary key alone: older lines cost nothing. A slot is identified by its start.
SELECT queue, event, actor, at - at % :slot_ms AS slot, COUNT(*)
FROM {audit_lines} a
WHERE run > :after
    AND run < :upto + 64
    AND id > :after
    AND id <= :upto
    AND queue <> ''
GROUP BY queue, event, actor, slot;

-- name: read_actions
SELECT at, event, queue, seq, attempt, actor, detail
FROM rowq_audit
WHERE seq IS NULL
    AND event <> ''
    AND (:queue IS NULL OR queue = :queue)
ORDER BY id DESC
LIMIT :limit;

-- name: read_kv
-- The first bound is inclusive: a key is its own prefix.
SELECT entry_key, format, value, written_at, message_id
FROM rowq_kv
WHERE entry_key >= :low
    AND entry_key < :high
ORDER BY entry_key
LIMIT :limit;

-- name: delete_kv
DELETE FROM rowq_kv
WHERE entry_key = :entry_key;

-- name: list_ready
SELECT seq FROM rowq_ready WHERE queue = :queue;

-- name: list_scheduled
SELECT seq FROM rowq_scheduled WHERE queue = :queue;

-- name: list_blocked
SELECT seq FROM rowq_blocked WHERE queue = :queue;

-- name: list_leased
SELECT seq FROM rowq_leased WHERE queue = :queue;

-- name: list_dead
-- A leased dead letter still counts as dead.
SELECT seq FROM rowq_dead WHERE queue = :queue
UNION ALL
SELECT seq FROM rowq_leased WHERE queue = :queue AND reason IS NOT NULL;

-- name: list_finished
SELECT seq FROM rowq_history WHERE queue = :queue;

-- name: find_lease
SELECT l.seq, l.token, l.queue, l.reason, l.lease_until, l.consumer, m.sent_at, m.own_id
FROM rowq_leased l
JOIN rowq_messages m ON m.seq = l.seq
WHERE l.seq = :seq;

-- name: find_leases
SELECT seq, token
FROM rowq_leased
WHERE seq IN (:seqs[]);
