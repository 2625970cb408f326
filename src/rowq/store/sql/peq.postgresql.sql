-- Schemas with PEQ's procedures, seen from outside: what prevents a new one, and which exist.

-- name: look_at_schema
-- Whether the schema exists, whether it holds PEQ's procedures for our tables, whether it holds anything; and whether uuid_generate_v4() is
-- missing and may be created in the public schema.
SELECT
    EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = :name),
    EXISTS (
        SELECT 1
        FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = :name
            AND p.proname = 'made_by_rowq'
            AND STRPOS(p.prosrc, '{schema}') > 0
    ),
    EXISTS (SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :name)
        OR EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :name),
    EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = 'public' AND has_schema_privilege(n.oid, 'CREATE'))
        AND NOT EXISTS (
            SELECT 1
            FROM pg_proc p
            WHERE p.proname = 'uuid_generate_v4'
                AND NOT EXISTS (SELECT 1 FROM pg_proc d WHERE d.pronamespace = p.pronamespace AND d.proname = 'made_by_rowq')
        );

-- name: list_installed
-- The schemas with PEQ's procedures for our tables, whether each was created by this release, and how many of its views exist.
SELECT
    n.nspname,
    STRPOS(p.prosrc, :fingerprint) > 0,
    (
        SELECT COUNT(*)
        FROM pg_class c
        WHERE c.relnamespace = n.oid
            AND c.relkind = 'v'
            AND c.relname = ANY(STRING_TO_ARRAY(:views, ','))
    )
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.proname = 'made_by_rowq'
    AND STRPOS(p.prosrc, '{schema}') > 0
ORDER BY n.nspname;
