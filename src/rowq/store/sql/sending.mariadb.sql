-- Sending on MariaDB.

-- name: draw_seqs
-- Runs alone and commits at once, so the row is locked only briefly. The new value comes back with the answer.
UPDATE rowq_counters
SET value = LAST_INSERT_ID(value + :count)
WHERE name = 'seq';

-- name: find_own_ids
-- Reads the current rows: an application's transaction may have an older snapshot.
SELECT id
FROM rowq_own_ids
WHERE id IN (:ids[])
    AND queue = :queue
LOCK IN SHARE MODE;

-- name: make_ready_listed
-- By a list: inside an application's transaction, a range would also lock the gap after it, into which all other producers insert.
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
SELECT queue, -priority, seq, seq, 0
FROM rowq_messages
WHERE seq IN (:seqs[]);
