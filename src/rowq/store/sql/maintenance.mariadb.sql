-- Maintenance on MariaDB.

-- name: find_queues_with_work
-- One index lookup for each queue. With EXISTS the whole table might be read.
SELECT q.name
FROM rowq_queues q
WHERE (SELECT 1 FROM rowq_scheduled s WHERE s.queue = q.name AND s.due <= :now LIMIT 1) = 1
    OR (SELECT 1 FROM rowq_leased l WHERE l.queue = q.name AND l.lease_until <= :late LIMIT 1) = 1;

-- name: delete_hollow_history
-- MariaDB cannot read the table that a DELETE modifies, except in a derived table.
DELETE FROM rowq_history
WHERE queue = ''
    AND id < (SELECT newest.id FROM (SELECT MAX(id) AS id FROM rowq_history) AS newest);

-- name: hollow_audit
UPDATE rowq_audit
SET at = :now, queue = '', seq = NULL, event = '', attempt = NULL, actor = NULL, detail = NULL
WHERE id = :id;
