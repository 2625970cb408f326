-- Sending on PostgreSQL.

-- name: draw_seqs
-- Numbers of a sequence are nobody's to lock. Another process may draw in between: then these do not follow one another, and are left.
-- The transaction's own number comes along: should the answer to the commit be lost, PostgreSQL can be asked what became of it.
SELECT MIN(drawn), MAX(drawn), pg_current_xact_id()
FROM (SELECT NEXTVAL('{schema}.rowq_seq') AS drawn FROM GENERATE_SERIES(1, :count)) AS numbers;
