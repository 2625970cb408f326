-- Leasing on SQLite: one statement writes rows that differ only in seq and token. With executemany the driver takes four times as long,
-- mostly to bind each NULL.

-- name: insert_leased_alike
INSERT INTO rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, marks)
SELECT CAST(key AS INTEGER), :queue, :lease_until, value, :consumer, :leased_at, :attempts, :marks
FROM json_each(:tokens);
