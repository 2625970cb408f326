-- Settling on PostgreSQL.

-- fragment: acked
-- Where nothing hangs on a message and nothing is kept of it, its two rows go at once. Seqs come in order, as locks must.
-- The empty text keeps the planner from walking all leases of the queue instead of looking up each.
gone AS (
    DELETE FROM rowq_leased l
    USING UNNEST(CAST(:seqs AS BIGINT[]), CAST(:tokens AS BIGINT[])) AS given (seq, token)
    WHERE l.seq = given.seq
        AND l.token = given.token
        AND l.queue || '' = ANY (:queues)
        AND l.marks & ~CAST(:harmless AS BIGINT) = 0
        AND l.expires_at IS NULL
        AND l.reason IS NULL
    RETURNING l.seq, l.token, l.queue, l.leased_at, l.attempts, l.consumer
),
bodies AS (
    DELETE FROM rowq_messages
    WHERE seq = ANY (ARRAY(SELECT seq FROM gone))
)

-- fragment: noted
noted AS (
    INSERT INTO rowq_audit (at, queue, seq, event, attempt, actor)
    SELECT :now, queue, seq, 'acked', attempts, COALESCE(consumer, :actor)
    FROM gone
    WHERE queue = ANY (:audited)
)

-- fragment: each_of_them
SELECT seq, token, queue, leased_at
FROM gone

-- fragment: all_of_them
-- For those whom nobody counts: how many went, the tokens of which if not all of them did, and the transaction's number.
SELECT
    COUNT(*),
    CASE WHEN COUNT(*) < CARDINALITY(CAST(:seqs AS BIGINT[])) THEN ARRAY_AGG(token) END,
    pg_current_xact_id_if_assigned()
FROM gone

-- name: ack_each
WITH {acked}
{each_of_them};

-- name: ack_each_audited
WITH {acked}, {noted}
{each_of_them};

-- name: ack_all
WITH {acked}
{all_of_them};

-- name: ack_all_audited
WITH {acked}, {noted}
{all_of_them};
