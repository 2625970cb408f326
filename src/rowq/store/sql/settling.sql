-- Settling a delivery: the leased row is locked by seq, compared with the receipt's token, and moved.

-- name: lock_leased
SELECT seq, token, queue, marks, expires_at IS NOT NULL OR reason IS NOT NULL, attempts, consumer, leased_at
FROM rowq_leased
WHERE seq IN (:seqs[])
ORDER BY seq
FOR UPDATE;

-- name: find_messages
SELECT seq, queue
FROM rowq_messages
WHERE seq IN (:seqs[]);

-- name: find_acked
-- Whether an ack whose answer was lost was committed.
SELECT seq
FROM {audit_lines} a
WHERE lead IN (:leads[])
    AND seq IN (:seqs[])
    AND event = 'acked'
    AND at IN (:moments[]);

-- name: extend_lease
UPDATE rowq_leased
SET lease_until = :lease_until
WHERE seq = :seq;
