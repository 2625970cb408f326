-- Maintenance: due times, expiry and retention. The first query runs on a reading connection, so an idle queue costs no write.

-- name: find_queues_with_work
SELECT q.name
FROM rowq_queues q
WHERE EXISTS (SELECT 1 FROM rowq_scheduled s WHERE s.queue = q.name AND s.due <= :now)
    OR EXISTS (SELECT 1 FROM rowq_leased l WHERE l.queue = q.name AND l.lease_until <= :late);

-- name: is_anything_ended
SELECT 1
FROM rowq_expiring
WHERE ends_at <= :now
LIMIT 1;

-- name: list_old_dead
SELECT seq FROM rowq_dead
WHERE queue = :queue AND died_at <= :cutoff
ORDER BY died_at, seq
LIMIT :limit;

-- name: list_old_history
SELECT seq FROM rowq_history
WHERE queue = :queue
    AND finished_at <= :cutoff
ORDER BY finished_at, id
LIMIT :limit;

-- name: list_expired
-- Scans the whole history of a queue: runs on the schedule of the delete reaper, and on request.
SELECT seq FROM rowq_history
WHERE queue = :queue
    AND outcome = 'expired';

-- name: list_audit
SELECT id, at, queue, {lines_of_row} FROM rowq_audit
WHERE id > :after
ORDER BY id
LIMIT :limit;

-- name: delete_audit
DELETE FROM rowq_audit
WHERE id IN (:seqs[]);

-- name: list_gone_own_ids
SELECT id, queue FROM rowq_own_ids
WHERE queue = :queue AND gone_at <= :cutoff
ORDER BY gone_at
LIMIT :limit;

-- name: find_newest
SELECT
    (SELECT MAX(id) FROM rowq_audit),
    (SELECT seq FROM rowq_history ORDER BY id DESC LIMIT 1);

-- name: hollow_audit
-- The newest row is emptied but kept, so that its id is not reused: a reader that continues from an id misses nothing.
UPDATE rowq_audit
SET at = :now, queue = '', seq = NULL, event = '', attempt = NULL, actor = NULL, detail = NULL, seqs = NULL
WHERE id = :id;

-- name: hollow_history
UPDATE rowq_history
SET seq = -id, queue = '', outcome = '', sent_at = 0, leased_at = NULL, attempts = 0, consumer = NULL, error = NULL,
    message_key = NULL, group_key = NULL, priority = 0, own_id = NULL
WHERE seq = :seq;

-- name: delete_hollow_history
DELETE FROM rowq_history
WHERE queue = ''
    AND id < (SELECT MAX(id) FROM rowq_history);

-- name: list_old_requests
SELECT id FROM rowq_requests
WHERE at <= :cutoff
ORDER BY at
LIMIT :limit;

-- name: delete_requests
DELETE FROM rowq_requests
WHERE id IN (:ids[]);

-- name: take_duty
-- Writes 1 row if the holder renews its duty, or if another holder's has run out; otherwise 0.
UPDATE rowq_duties
SET holder = :holder,
    held_until = :held_until
WHERE name = :name
    AND (holder = :holder OR held_until <= :now);

-- name: offer_duty
INSERT INTO rowq_duties (name, holder, held_until)
VALUES (:name, '', 0)
ON CONFLICT (name) DO NOTHING;

-- name: leave_duty
UPDATE rowq_duties
SET held_until = 0
WHERE name = :name
    AND holder = :holder;
