-- Keys to the server: a handful of rows, read as a whole about once a second by every server. A digest is the SHA-256 of a secret.

-- name: read_api_keys
SELECT name, digest, scopes, queues, created_at
FROM rowq_api_keys
ORDER BY name;

-- name: insert_api_key
INSERT INTO rowq_api_keys (name, digest, scopes, queues, created_at)
VALUES (:name, :digest, :scopes, :queues, :created_at)
ON CONFLICT (name) DO NOTHING;

-- name: delete_api_key
DELETE FROM rowq_api_keys
WHERE name = :name;
