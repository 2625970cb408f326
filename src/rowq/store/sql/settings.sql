-- The settings of queues, and a version that shows every process when they have changed.

-- name: read_settings_version
SELECT value
FROM rowq_counters
WHERE name = 'settings';

-- name: read_identity
SELECT value
FROM rowq_counters
WHERE name = 'identity';

-- name: raise_settings_version
UPDATE rowq_counters
SET value = value + 1
WHERE name = 'settings';

-- name: read_settings
SELECT name, settings
FROM rowq_queues
WHERE name IN (:queues[]);

-- name: read_all_settings
SELECT name, settings
FROM rowq_queues
ORDER BY name;

-- name: list_queue_names
SELECT name
FROM rowq_queues
ORDER BY name
LIMIT :limit;

-- name: insert_queue
INSERT INTO rowq_queues (name, settings, created_at)
VALUES (:name, :settings, :created_at)
ON CONFLICT (name) DO NOTHING;

-- name: write_settings
INSERT INTO rowq_queues (name, settings, created_at)
VALUES (:name, :settings, :created_at)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings;

-- name: delete_queue
DELETE FROM rowq_queues
WHERE name = :name;

-- name: delete_bucket
DELETE FROM rowq_buckets
WHERE queue = :queue;

-- name: delete_own_ids_of_queue
DELETE FROM rowq_own_ids
WHERE queue = :queue;

-- name: delete_requests_of_queue
-- Their ids begin with the queue's name and a slash; 0 is the next character.
DELETE FROM rowq_requests
WHERE id >= :first AND id < :last;
