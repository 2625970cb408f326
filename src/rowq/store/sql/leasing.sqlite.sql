-- Leasing on SQLite. With executemany the driver takes four times as long, mostly to bind each NULL.

-- name: insert_plain_lease
INSERT INTO rowq_leased (seq, queue, lease_until, token, leased_at, attempts, marks)
VALUES (:seq, :queue, :lease_until, :token, :leased_at, :attempts, :marks);

-- name: insert_leased_alike
-- Rows that differ only in seq and token, by one statement.
INSERT INTO rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, marks)
SELECT CAST(key AS INTEGER), :queue, :lease_until, value, :consumer, :leased_at, :attempts, :marks
FROM json_each(:tokens);
