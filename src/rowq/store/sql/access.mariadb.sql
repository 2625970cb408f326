-- Keys to the server on MariaDB.

-- name: insert_api_key
-- Not by ON DUPLICATE KEY UPDATE: the number of matched rows would not tell whether there was one already.
INSERT INTO rowq_api_keys (name, digest, scopes, queues, created_at)
SELECT :name, :digest, :scopes, :queues, :created_at
FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM rowq_api_keys WHERE name = :name);
