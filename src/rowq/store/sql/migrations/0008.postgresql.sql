-- Version 8: the same event of many messages is one row of the audit.

-- A row is one event of one message, or a run: the same event of up to 64 messages, written by one statement (decision 43). Then seqs has
-- their seqs, all of one block of 64, and seq is -1 minus the number of the block, so that one index finds either.
ALTER TABLE rowq_audit ADD COLUMN seqs BIGINT[];

-- The same a line at a time. run and lead are the columns of the index that a reader begins with; the ids of a run end with that of its row.
CREATE VIEW rowq_audit_lines AS
SELECT
    a.id AS run, a.seq AS lead,
    a.id - COALESCE(CARDINALITY(a.seqs), 1) + line.place AS id,
    a.at, a.queue, line.seq, a.event, a.attempt, a.actor, a.detail
FROM rowq_audit a
CROSS JOIN LATERAL UNNEST(COALESCE(a.seqs, ARRAY[a.seq])) WITH ORDINALITY AS line (seq, place);

-- Draws consecutive numbers, and gives the last. If another transaction draws in between, the numbers are discarded, and the next attempt
-- holds a lock, so that those who have failed do not disturb each other again. The lock is a block's own, and the error that ends the block
-- releases it; numbers stay drawn. The transaction has its id before the first number, as the default of a line has. Eight numbers at a
-- time: a step of PL/pgSQL costs a quarter of what a number does.
CREATE FUNCTION rowq_draw_run(ids REGCLASS, count BIGINT)
RETURNS BIGINT
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    wanted BIGINT := GREATEST(count, 1);
    first BIGINT;
    last BIGINT;
BEGIN
    PERFORM pg_current_xact_id();
    first := nextval(ids);
    last := first;
    FOR eight IN 1..(wanted - 1) / 8 LOOP
        last := GREATEST(
            nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids)
        );
    END LOOP;
    FOR one IN 1..(wanted - 1) % 8 LOOP
        last := nextval(ids);
    END LOOP;
    IF last - first + 1 = wanted THEN
        RETURN last;
    END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock((CAST(1919907697 AS BIGINT) << 32) | CAST(CAST(ids AS OID) AS BIGINT));
        LOOP
            first := nextval(ids);
            last := first;
            FOR one IN 2..wanted LOOP
                last := nextval(ids);
            END LOOP;
            EXIT WHEN last - first + 1 = wanted;
        END LOOP;
        RAISE SQLSTATE 'RQ001';
    EXCEPTION WHEN SQLSTATE 'RQ001' THEN
        RETURN last;
    END;
END
$$;
