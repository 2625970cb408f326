-- The version of the tables.

-- name: read_version
SELECT MAX(version)
FROM rowq_migrations;

-- name: insert_version
INSERT INTO rowq_migrations (version, applied_at)
VALUES (:version, :applied_at);
