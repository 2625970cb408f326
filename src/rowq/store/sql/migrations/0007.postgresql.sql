-- Version 7: an id that a caller brought is unique in its queue, where it was unique in the database.

ALTER TABLE rowq_own_ids
    DROP CONSTRAINT rowq_own_ids_pkey,
    ADD PRIMARY KEY (id, queue);

-- SQL doors of the release before name the old key where they write an id, which PostgreSQL refuses from here on. They go on until
-- `rowq peq install` makes them anew; one that belongs to another role has to wait for that.
DO $$
DECLARE
    door REGPROCEDURE;
BEGIN
    FOR door IN
        SELECT p.oid
        FROM pg_catalog.pg_proc p
        WHERE p.proname = 'enqueue'
            AND p.prosrc LIKE '%.rowq_own_ids (id, seq, queue) %ON CONFLICT (id) DO NOTHING%'
    LOOP
        BEGIN
            EXECUTE replace(pg_catalog.pg_get_functiondef(door), 'ON CONFLICT (id) DO NOTHING', 'ON CONFLICT DO NOTHING');
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'run `rowq peq install` for %', door;
        END;
    END LOOP;
END
$$;
