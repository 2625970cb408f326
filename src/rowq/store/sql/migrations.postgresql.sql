-- name: is_installed
SELECT COUNT(*)
FROM pg_catalog.pg_class
WHERE oid = TO_REGCLASS('{schema}.rowq_migrations');

-- name: lock_migrations
-- Held until the end of the transaction: of processes that start together, one creates the tables.
SELECT pg_advisory_xact_lock(7815696, HASHTEXT('{schema}'));

-- name: has_schema
-- Checked first: CREATE SCHEMA, even for an existing one, requires a privilege that rowq does not need otherwise.
SELECT COUNT(*)
FROM pg_catalog.pg_namespace
WHERE nspname = '{schema_name}';

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: use_schema
SET LOCAL search_path TO {schema};
