-- Copying on PostgreSQL.

-- name: skip_seqs
-- A sequence cannot be locked, and other sessions may draw between NEXTVAL and SETVAL: the 16 million numbers before the reserved range
-- are left for them.
SELECT SETVAL('{schema}.rowq_seq', NEXTVAL('{schema}.rowq_seq') + 16777216 + :count);

-- name: read_skipped
SELECT CURRVAL('{schema}.rowq_seq');

-- name: read_last_seq
SELECT last_value
FROM rowq_seq;

-- name: find_open_senders
-- A transaction that has drawn a number holds this lock until it ends.
SELECT virtualtransaction
FROM pg_catalog.pg_locks
WHERE relation = '{schema}.rowq_seq'::regclass
    AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = CURRENT_DATABASE())
    AND mode = 'RowExclusiveLock'
    AND granted
    AND pid <> PG_BACKEND_PID();
