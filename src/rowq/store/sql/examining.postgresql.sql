-- What PostgreSQL reports: its clock, the outcome of a transaction, and what harms queues.

-- name: read_clock
SELECT CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) AS DOUBLE PRECISION);

-- name: read_fate
SELECT pg_xact_status(CAST(CAST(:xid AS TEXT) AS xid8)), CAST(pg_stat_get_bgwriter_stat_reset_time() AS TEXT);

-- name: read_life
-- Survives a restart, but changes with every crash recovery and failover.
SELECT CAST(pg_stat_get_bgwriter_stat_reset_time() AS TEXT);

-- name: read_xid
SELECT pg_current_xact_id_if_assigned();

-- name: read_backend
SELECT pg_backend_pid(), pg_is_in_recovery();

-- name: count_dead_rows
SELECT relname, n_dead_tup
FROM pg_catalog.pg_stat_user_tables
WHERE schemaname = '{schema_name}';

-- name: notify
SELECT pg_notify(:channel, :payload);

-- name: from_lists
-- Replaces VALUES if each column is given as a list.
SELECT <values> FROM UNNEST(<lists>) AS given (<columns>);

-- name: declare_stream
DECLARE stream_of_rows NO SCROLL CURSOR FOR <query>;

-- name: fetch_stream
FETCH 500 FROM stream_of_rows;

-- name: close_stream
CLOSE stream_of_rows;

-- The queries of `rowq doctor`. They never wait for a lock, and give NULL for what the user may not see.

-- name: read_server_settings
SELECT name, setting
FROM pg_catalog.pg_settings
WHERE name IN (:names[]);

-- name: read_standing
SELECT pg_is_in_recovery(), pg_has_role('pg_read_all_stats', 'USAGE'), CAST(CURRENT_USER AS TEXT), pg_notification_queue_usage();

-- name: count_connections
-- Most users cannot see what another user's session does, but they can see that it exists.
SELECT
    COUNT(*),
    COUNT(*) FILTER (WHERE a.datid = d.oid),
    COUNT(*) FILTER (WHERE a.usesysid = r.oid),
    CASE WHEN r.rolsuper THEN -1 ELSE d.datconnlimit END,
    CASE WHEN r.rolsuper THEN -1 ELSE r.rolconnlimit END
FROM pg_catalog.pg_stat_activity a
CROSS JOIN pg_catalog.pg_database d
CROSS JOIN pg_catalog.pg_roles r
WHERE COALESCE(a.backend_type, 'client backend') = 'client backend'
    AND d.datname = CURRENT_DATABASE()
    AND r.rolname = CURRENT_USER
GROUP BY d.oid, d.datconnlimit, r.oid, r.rolsuper, r.rolconnlimit;

-- name: list_tables
-- Reading the size of a table that is locked as a whole would wait. VACUUM is allowed for the owner of the table or the database, and
-- from PostgreSQL 17 on for roles with MAINTAIN.
SELECT
    CAST(c.relname AS TEXT),
    c.relpersistence = 'p',
    COALESCE(s.n_live_tup, 0),
    COALESCE(s.n_dead_tup, 0),
    CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - GREATEST(s.last_vacuum, s.last_autovacuum)) AS DOUBLE PRECISION),
    CASE
        WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_locks l WHERE l.relation = c.oid AND l.mode = 'AccessExclusiveLock') THEN 0
        ELSE pg_total_relation_size(c.oid)
    END,
    COALESCE('autovacuum_enabled=false' = ANY (c.reloptions), FALSE),
    pg_has_role(c.relowner, 'USAGE')
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_database d WHERE d.datname = CURRENT_DATABASE() AND pg_has_role(d.datdba, 'USAGE'))
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'pg_maintain' AND pg_has_role(r.oid, 'USAGE'))
        OR EXISTS (
            SELECT 1
            FROM ACLEXPLODE(c.relacl) AS given
            WHERE given.privilege_type = 'MAINTAIN'
                AND (given.grantee = 0 OR pg_has_role(given.grantee, 'USAGE'))
        )
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = '{schema_name}'
    AND c.relkind = 'r'
    AND STARTS_WITH(CAST(c.relname AS TEXT), 'rowq_')
ORDER BY c.relname;

-- name: list_missing_rights
SELECT CAST(c.relname AS TEXT), wanted.privilege
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN UNNEST(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (privilege)
WHERE n.nspname = '{schema_name}'
    AND c.relkind = 'r'
    AND STARTS_WITH(CAST(c.relname AS TEXT), 'rowq_')
    AND (wanted.privilege = 'SELECT' OR c.oid <> TO_REGCLASS('rowq_migrations'))
    AND NOT HAS_TABLE_PRIVILEGE(c.oid, wanted.privilege)
UNION ALL
SELECT 'rowq_' || 'seq', 'USAGE'
WHERE NOT HAS_SEQUENCE_PRIVILEGE(TO_REGCLASS('rowq_seq'), 'USAGE')
ORDER BY 1, 2;

-- name: list_snapshots
-- Sessions that may still see rows deleted since. A session of another database counts if it writes, because every snapshot includes the
-- transactions that were open when it was taken. Vacuum itself does not count.
SELECT
    a.pid, CAST(a.usename AS TEXT), a.application_name,
    CASE WHEN a.backend_type = 'client backend' THEN a.state ELSE a.backend_type END,
    LEFT(a.query, 200),
    CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - a.xact_start) AS DOUBLE PRECISION) AS seconds,
    CAST(GREATEST(AGE(a.backend_xmin), AGE(a.backend_xid)) AS BIGINT)
FROM pg_catalog.pg_stat_activity a
WHERE a.pid <> pg_backend_pid()
    AND (a.backend_xid IS NOT NULL OR (a.backend_xmin IS NOT NULL AND (a.datid IS NULL OR a.datname = CURRENT_DATABASE())))
    AND a.backend_type <> 'autovacuum worker'
    AND a.query !~* '^\s*vacuum(?!.*\mfull\M)'
ORDER BY seconds DESC NULLS LAST;

-- name: list_prepared
SELECT gid, CAST(owner AS TEXT), CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - prepared) AS DOUBLE PRECISION) AS seconds
FROM pg_catalog.pg_prepared_xacts
ORDER BY seconds DESC;

-- name: list_slots
-- How many transactions and how many bytes of WAL a slot holds back.
SELECT
    CAST(slot_name AS TEXT), active, CAST(AGE(xmin) AS BIGINT),
    CAST(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, restart_lsn) AS BIGINT)
FROM pg_catalog.pg_replication_slots
ORDER BY slot_name;

-- name: list_locks
-- Sessions with an open transaction that has written to one of our tables or locked it as a whole, and how many wait for each.
-- Readers and vacuum block no writers.
SELECT
    a.pid, CAST(a.usename AS TEXT), a.application_name, a.state, LEFT(a.query, 200),
    CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - a.xact_start) AS DOUBLE PRECISION) AS seconds,
    STRING_AGG(DISTINCT CAST(c.relname AS TEXT), ', '),
    (
        SELECT COUNT(*)
        FROM pg_catalog.pg_stat_activity w
        WHERE w.wait_event_type = 'Lock'
            AND a.pid = ANY (pg_blocking_pids(w.pid))
    )
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relkind = 'r'
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.datname = CURRENT_DATABASE()
WHERE n.nspname = '{schema_name}'
    AND STARTS_WITH(CAST(c.relname AS TEXT), 'rowq_')
    AND l.granted
    AND l.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
    AND a.pid <> pg_backend_pid()
GROUP BY a.pid, a.usename, a.application_name, a.state, a.query, a.xact_start
ORDER BY seconds DESC NULLS LAST;
