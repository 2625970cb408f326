-- API keys on MariaDB.

-- name: insert_api_key
-- Without ON DUPLICATE KEY UPDATE, whose number of matched rows would not tell whether the row existed.
INSERT INTO rowq_api_keys (name, digest, scopes, queues, created_at)
SELECT :name, :digest, :scopes, :queues, :created_at
FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM rowq_api_keys WHERE name = :name);
