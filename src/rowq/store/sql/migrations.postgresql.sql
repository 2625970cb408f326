-- name: is_installed
SELECT COUNT(*)
FROM pg_catalog.pg_class
WHERE oid = TO_REGCLASS('{schema}.rowq_migrations');

-- name: lock_migrations
-- Until the end of the transaction: of those who start together, one makes the tables.
SELECT pg_advisory_xact_lock(7815696, HASHTEXT('{schema}'));

-- name: has_schema
-- Asked first: to make a schema, even one that is there, takes a right that is needed for nothing else.
SELECT COUNT(*)
FROM pg_catalog.pg_namespace
WHERE nspname = '{schema_name}';

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: use_schema
SET LOCAL search_path TO {schema};
