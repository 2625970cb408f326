-- Leasing on SQLite: rows that differ in nothing but seq and token, written by one statement. Through executemany the driver
-- takes four times as long, most of it to look at each NULL.

-- name: insert_leased_alike
INSERT INTO rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, marks)
SELECT CAST(key AS INTEGER), :queue, :lease_until, value, :consumer, :leased_at, :attempts, :marks
FROM json_each(:tokens);
