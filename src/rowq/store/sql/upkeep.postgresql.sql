-- Upkeep on PostgreSQL. Vacuum runs beside the writers; it gives no pages back to the system, for which it would have to lock them
-- out, and leaves a table alone that somebody else is vacuuming.

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
