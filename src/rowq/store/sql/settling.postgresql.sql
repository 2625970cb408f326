-- Settling on PostgreSQL.

-- fragment: acked
-- Deletes the two rows of messages without options of which nothing is kept. Seqs are given in order, for the order of locks. The limit
-- makes the planner look up each lease: with old statistics of a small table it would scan all of them. A lease that is being extended at
-- this moment is skipped and settled the general way.
held AS (
    SELECT l.place
    FROM UNNEST(CAST(:seqs AS BIGINT[]), CAST(:tokens AS BIGINT[])) AS given (seq, token)
    CROSS JOIN LATERAL (
        SELECT ctid AS place
        FROM rowq_leased
        WHERE rowq_leased.seq = given.seq
            AND rowq_leased.token = given.token
            AND queue || '' = ANY (:queues)
            AND marks & ~CAST(:harmless AS BIGINT) = 0
            AND expires_at IS NULL
            AND reason IS NULL
        LIMIT 1
    ) AS l
),
gone AS (
    DELETE FROM rowq_leased
    WHERE ctid = ANY (ARRAY(SELECT place FROM held))
    RETURNING seq, token, queue, leased_at, attempts, consumer
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

-- fragment: noted_in_runs
noted AS (
    INSERT INTO rowq_audit (id, at, queue, seq, event, attempt, actor, seqs)
    SELECT rowq_draw_run('rowq_audit_ids', lines), :now, queue, lead, 'acked', attempts, COALESCE(consumer, :actor), seqs
    FROM (
        SELECT {audit_run}, queue, attempts, consumer
        FROM gone
        WHERE queue = ANY (:audited)
        GROUP BY seq / 64, queue, attempts, consumer
        ORDER BY MIN(seq)
    ) AS run
)

-- fragment: each_of_them
SELECT seq, token, queue, leased_at
FROM gone

-- fragment: all_of_them
-- Without a meter: how many were deleted, their tokens if not all of them were, and the transaction id.
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

-- name: ack_each_audited_in_runs
WITH {acked}, {noted_in_runs}
{each_of_them};

-- name: ack_all_audited_in_runs
WITH {acked}, {noted_in_runs}
{all_of_them};
