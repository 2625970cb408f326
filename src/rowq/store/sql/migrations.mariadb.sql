-- name: is_installed
SELECT COUNT(*)
FROM information_schema.tables
WHERE table_schema = DATABASE()
    AND table_name = 'rowq_migrations';

-- name: lock_migrations
-- Held by this connection until it is released: of processes that start together, one creates the tables. 1 if the lock was granted.
SELECT GET_LOCK(CONCAT('rowq-', SHA1(DATABASE())), :seconds);

-- name: unlock_migrations
SELECT RELEASE_LOCK(CONCAT('rowq-', SHA1(DATABASE())));

-- name: find_collation
-- Compares bytes, including trailing spaces: MariaDB has the first, MySQL the second.
SELECT collation_name
FROM information_schema.collations
WHERE collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')
ORDER BY collation_name DESC
LIMIT 1;
