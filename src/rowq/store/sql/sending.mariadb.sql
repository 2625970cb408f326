-- Sending on MariaDB.

-- name: draw_seqs
-- Run by itself and committed at once: the row is locked for that long only. What it was set to comes back with the answer.
UPDATE rowq_counters
SET value = LAST_INSERT_ID(value + :count)
WHERE name = 'seq';

-- name: find_own_ids
-- As of now: an application's own transaction may look at what was here when it began.
SELECT id
FROM rowq_own_ids
WHERE id IN (:ids[])
    AND queue = :queue
LOCK IN SHARE MODE;

-- name: make_ready_listed
-- One by one: inside an application's transaction a range would be locked to its end, beyond which everybody else sends.
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
SELECT queue, -priority, seq, seq, 0
FROM rowq_messages
WHERE seq IN (:seqs[]);
