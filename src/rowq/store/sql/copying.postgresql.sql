-- Copying on PostgreSQL.

-- name: skip_seqs
-- A sequence cannot be locked, and others may draw between its two functions: the 16 million numbers in front of those that are meant
-- are theirs.
SELECT SETVAL('{schema}.rowq_seq', NEXTVAL('{schema}.rowq_seq') + 16777216 + :count);

-- name: read_skipped
SELECT CURRVAL('{schema}.rowq_seq');

-- name: read_last_seq
SELECT last_value
FROM rowq_seq;

-- name: find_open_senders
-- Whoever draws holds this lock until its transaction ends.
SELECT virtualtransaction
FROM pg_catalog.pg_locks
WHERE relation = '{schema}.rowq_seq'::regclass
    AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = CURRENT_DATABASE())
    AND mode = 'RowExclusiveLock'
    AND granted
    AND pid <> PG_BACKEND_PID();
