-- Holding on MariaDB.

-- name: find_waiting_now
-- find_waiting for an application's transaction, whose snapshot may be older.
SELECT m.seq
FROM rowq_messages m
WHERE m.seq IN (:seqs[])
    AND NOT EXISTS (SELECT 1 FROM rowq_leased l WHERE l.seq = m.seq LOCK IN SHARE MODE)
    AND NOT EXISTS (SELECT 1 FROM rowq_dead d WHERE d.queue = m.queue AND d.seq = m.seq LOCK IN SHARE MODE)
    AND NOT EXISTS (SELECT 1 FROM rowq_history h WHERE h.seq = m.seq LOCK IN SHARE MODE)
ORDER BY m.seq
LOCK IN SHARE MODE;
