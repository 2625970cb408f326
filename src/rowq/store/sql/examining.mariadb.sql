-- What MariaDB and MySQL report: their clock, their limits, and what harms queues.

-- name: read_clock
-- On a connection in UTC: in other time zones an hour may occur twice.
SELECT UNIX_TIMESTAMP(SYSDATE(6));

-- name: read_limits
SELECT @@max_allowed_packet;

-- name: read_joined
-- For an application's connection: whether its database has our tables, and its settings.
SELECT value, @@max_allowed_packet, @@sql_safe_updates, FIND_IN_SET('NO_BACKSLASH_ESCAPES', @@sql_mode)
FROM rowq_counters
WHERE name = 'identity';

-- name: read_release
SELECT VERSION();

-- name: read_server_settings
-- Only the settings that this server has: MariaDB and MySQL differ.
SHOW GLOBAL VARIABLES
WHERE variable_name IN (:names[]);

-- name: read_server_status
SHOW GLOBAL STATUS
WHERE variable_name IN (:names[]);

-- name: read_history_length
-- MySQL has no status variable for it. Requires the PROCESS privilege.
SELECT m.count
FROM information_schema.innodb_metrics m
WHERE m.name = 'trx_rseg_history_len';

-- name: list_transactions
-- The oldest first. MariaDB gives their start in the session's time zone, MySQL in the system's. Requires the PROCESS privilege.
SELECT
    t.trx_mysql_thread_id, p.user, p.host, p.db, LEFT(t.trx_query, 200), t.trx_rows_locked,
    TIMESTAMPDIFF(
        SECOND, t.trx_started, IF(VERSION() LIKE '%MariaDB%', UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))
    ) AS seconds
FROM information_schema.innodb_trx t
LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id <> CONNECTION_ID()
ORDER BY seconds DESC
LIMIT 50;
