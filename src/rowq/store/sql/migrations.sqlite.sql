-- name: is_installed
SELECT COUNT(*)
FROM sqlite_master
WHERE type = 'table'
    AND name = 'rowq_migrations';
