-- Upkeep on MariaDB.

-- name: find_queues_with_work
-- One look into an index for each queue. With EXISTS the whole table might be read once for all of them.
SELECT q.name
FROM rowq_queues q
WHERE (SELECT 1 FROM rowq_scheduled s WHERE s.queue = q.name AND s.due <= :now LIMIT 1) = 1
    OR (SELECT 1 FROM rowq_leased l WHERE l.queue = q.name AND l.lease_until <= :late LIMIT 1) = 1;

-- name: delete_hollow_history
-- What is deleted from may not be read beside it, only before.
DELETE FROM rowq_history
WHERE queue = ''
    AND id < (SELECT newest.id FROM (SELECT MAX(id) AS id FROM rowq_history) AS newest);
