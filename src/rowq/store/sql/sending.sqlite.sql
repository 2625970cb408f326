-- Sending on SQLite.

-- name: raise_seq
-- Draws seqs for a session that knows the number drawn last; writes nothing if another has drawn since. RETURNING would cost more.
UPDATE rowq_counters
SET value = :last
WHERE name = 'seq'
    AND value = :known;

-- name: insert_new_ready
INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
VALUES (:queue, :ranking, :seq, :seq, 0);
