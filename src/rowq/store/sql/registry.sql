-- The registry: consumers of a queue that know of each other.

-- name: insert_consumer
-- One that asks a second time, because the answer was lost, is the same one, and the youngest.
INSERT INTO rowq_consumers (queue, id, born_at, beat_at)
VALUES (:queue, :id, :born_at, :beat_at)
ON CONFLICT (queue, id) DO UPDATE
SET born_at = excluded.born_at,
    beat_at = excluded.beat_at;

-- name: beat
-- Only for one that is alive: whoever was silent for too long may have been left out by others already.
UPDATE rowq_consumers
SET beat_at = :beat_at
WHERE queue = :queue
    AND id = :id
    AND beat_at > :cutoff;

-- name: read_consumers
SELECT id, born_at, beat_at
FROM rowq_consumers
WHERE queue = :queue;

-- name: read_all_consumers
-- Those that were heard of last come first: where there are too many, the silent are left out.
SELECT queue, id, born_at, beat_at
FROM rowq_consumers
ORDER BY beat_at DESC
LIMIT :limit;

-- name: count_in_flight
SELECT l.queue, l.consumer, COUNT(*), MAX(l.leased_at)
FROM (SELECT queue, consumer, leased_at FROM rowq_leased LIMIT :limit) l
GROUP BY l.queue, l.consumer;

-- name: delete_consumer
DELETE FROM rowq_consumers
WHERE queue = :queue
    AND id = :id;

-- name: delete_silent_consumer
-- By its key: the rows of the living are theirs, and two that look at all rows would wait for each other.
DELETE FROM rowq_consumers
WHERE queue = :queue
    AND id = :id
    AND beat_at <= :cutoff;

-- name: delete_consumers_of_queue
DELETE FROM rowq_consumers
WHERE queue = :queue;

-- name: list_silent_consumers
SELECT queue, id
FROM rowq_consumers
WHERE beat_at <= :cutoff
LIMIT :limit;
