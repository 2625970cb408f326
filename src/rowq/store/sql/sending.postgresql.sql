-- Sending on PostgreSQL.

-- name: draw_seqs
-- The transaction id is returned too: if the answer to the commit is lost, PostgreSQL can be asked for its outcome.
SELECT rowq_draw_run('rowq_seq', :count) - :count + 1, pg_current_xact_id();
