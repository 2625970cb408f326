-- The registry: the consumers of each queue.

-- name: insert_consumer
-- A consumer that registers again because the answer was lost is the same one, and the youngest.
INSERT INTO rowq_consumers (queue, id, born_at, beat_at)
VALUES (:queue, :id, :born_at, :beat_at)
ON CONFLICT (queue, id) DO UPDATE
SET born_at = excluded.born_at,
    beat_at = excluded.beat_at;

-- name: beat
-- Only for a living consumer: after too long a silence the others may already ignore it.
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
-- The most recent heartbeats first: if there are too many consumers, the silent ones are left out.
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
-- By key: living consumers update their own rows, and two transactions that scan all rows would wait for each other.
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
