-- Sending on PostgreSQL.

-- name: draw_seqs
-- A sequence cannot be locked. If another process draws in between, the numbers are not consecutive and are discarded. The transaction id
-- is returned too: if the answer to the commit is lost, PostgreSQL can be asked for its outcome.
SELECT MIN(drawn), MAX(drawn), pg_current_xact_id()
FROM (SELECT NEXTVAL('{schema}.rowq_seq') AS drawn FROM GENERATE_SERIES(1, :count)) AS numbers;
