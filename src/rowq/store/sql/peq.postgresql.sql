-- Doors in SQL, seen from outside: what stands in the way of a new one, and which there are.

-- name: look_at_door
-- Whether there is such a schema, whether it is a door to our tables, whether anything is in it; and whether uuid_generate_v4() is missing
-- and may be made for everybody.
SELECT
    EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = :door),
    EXISTS (
        SELECT 1
        FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = :door
            AND p.proname = 'made_by_rowq'
            AND STRPOS(p.prosrc, '{schema}') > 0
    ),
    EXISTS (SELECT 1 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = :door)
        OR EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :door),
    EXISTS (SELECT 1 FROM pg_namespace n WHERE n.nspname = 'public' AND has_schema_privilege(n.oid, 'CREATE'))
        AND NOT EXISTS (
            SELECT 1
            FROM pg_proc p
            WHERE p.proname = 'uuid_generate_v4'
                AND NOT EXISTS (SELECT 1 FROM pg_proc d WHERE d.pronamespace = p.pronamespace AND d.proname = 'made_by_rowq')
        );

-- name: list_doors
-- The doors to our tables, whether each is made of the SQL of this release, and how many of the views it should have are there.
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
