-- Holding on MariaDB.

-- fragment: is_reason
-- Reasons are kept as ASCII, which MariaDB refuses to compare with any other text.
CONVERT(d.reason USING utf8mb4) COLLATE utf8mb4_bin = :reason

-- name: find_waiting_now
-- find_waiting inside an application's transaction, which may look at what was here when it began.
SELECT m.seq
FROM rowq_messages m
WHERE m.seq IN (:seqs[])
    AND NOT EXISTS (SELECT 1 FROM rowq_leased l WHERE l.seq = m.seq LOCK IN SHARE MODE)
    AND NOT EXISTS (SELECT 1 FROM rowq_dead d WHERE d.queue = m.queue AND d.seq = m.seq LOCK IN SHARE MODE)
    AND NOT EXISTS (SELECT 1 FROM rowq_history h WHERE h.seq = m.seq LOCK IN SHARE MODE)
ORDER BY m.seq
LOCK IN SHARE MODE;
