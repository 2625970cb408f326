-- Maintenance on PostgreSQL. Vacuum runs alongside the writers: it does not truncate tables, which would lock the writers out, and skips a
-- table that another session is vacuuming.

-- name: vacuum_ready
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_ready;

-- name: vacuum_leased
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_leased;

-- name: vacuum_scheduled
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_scheduled;

-- name: vacuum_expiring
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_expiring;

-- name: vacuum_waiting_keys
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_waiting_keys;

-- name: vacuum_group_heads
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_group_heads;

-- name: vacuum_counters
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_counters;

-- name: vacuum_messages
VACUUM (TRUNCATE OFF, SKIP_LOCKED, INDEX_CLEANUP ON, PARALLEL 0) rowq_messages;
