-- Which version the tables are of.

-- name: read_version
SELECT MAX(version)
FROM rowq_migrations;

-- name: insert_version
INSERT INTO rowq_migrations (version, applied_at)
VALUES (:version, :applied_at);
