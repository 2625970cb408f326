-- API keys: a handful of rows, all of them read about once a second by every server. A digest is the SHA-256 of a secret.
-- And the login sessions opened with a key: at most a thousand per key.

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

-- name: insert_session
INSERT INTO rowq_sessions (digest, key_name, key_digest, created_at, expires_at)
VALUES (:digest, :key_name, :key_digest, :created_at, :expires_at);

-- name: find_session
SELECT key_name, key_digest, expires_at
FROM rowq_sessions
WHERE digest = :digest;

-- name: delete_session
DELETE FROM rowq_sessions
WHERE digest = :digest;

-- name: list_ended_sessions
SELECT digest
FROM rowq_sessions
WHERE expires_at <= :now
LIMIT :limit;

-- name: list_surplus_sessions
-- A key's sessions except the newest ones.
SELECT digest
FROM rowq_sessions
WHERE key_name = :key_name
ORDER BY created_at DESC, digest
LIMIT :limit OFFSET :offset;
