-- Leasing on PostgreSQL. The rows to lock are selected first, in a MATERIALIZED list of their own: in a join, the planner may lock more
-- rows than it returns.

-- fragment: first
taken AS MATERIALIZED (
    SELECT ctid AS place, seq, position, attempts, expires_at, error
    FROM rowq_ready
    WHERE queue = :queue
        AND (ranking, position) >= (:ranking, :position)
    ORDER BY ranking, position, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)

-- fragment: first_of_share
-- The head of the queue, up to a limit, is read without locks; the messages of the share in it are locked (see model/member.py).
head AS MATERIALIZED (
    SELECT ctid AS place, ranking, position, seq
    FROM rowq_ready
    WHERE queue = :queue
        AND (ranking, position) >= (:ranking, :position)
    ORDER BY ranking, position, seq
    LIMIT :width
),
taken AS MATERIALIZED (
    SELECT ctid AS place, seq, position, attempts, expires_at, error
    FROM rowq_ready
    WHERE ctid = ANY (ARRAY(SELECT place FROM head WHERE seq % :count = :index))
    ORDER BY ranking, position, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)

-- fragment: claimed
-- Takes, leases and audits in one statement; returns rows as they are handed out. Messages that must be checked first are only locked and
-- come without a token; with all-or-none, so do the others then. A send that replaces a waiting message rewrites its state row, so a body
-- read together with the lock is current. The limit makes the planner look up each body: with old statistics of a small table it would
-- read all of them.
numbered AS (
    SELECT *, ROW_NUMBER() OVER () AS slot
    FROM taken
),
seen AS MATERIALIZED (
    SELECT
        n.place, n.seq, n.attempts + 1 AS attempt, n.error, n.slot,
        n.expires_at IS NULL
            AND n.position = n.seq
            AND m.marks & :has_deadline = 0
            AND (m.delay_ms = 0 OR n.attempts > 0 OR NOT :is_counted) AS is_usual,
        m.marks, m.format, m.payload, m.headers, m.sent_at, m.message_key, m.group_key, m.priority, m.own_id
    FROM numbered n
    CROSS JOIN LATERAL (SELECT * FROM rowq_messages b WHERE b.seq = n.seq LIMIT 1) AS m
),
found AS (
    SELECT
        *,
        COALESCE((CAST(:untils AS BIGINT[]))[slot], :until) AS lease_until,
        CASE
            WHEN is_usual AND (NOT :is_all_or_none OR (SELECT BOOL_AND(is_usual) FROM seen))
            THEN (CAST(:tokens AS BIGINT[]))[slot]
        END AS token
    FROM seen
),
gone AS (
    DELETE FROM rowq_ready
    WHERE ctid = ANY (ARRAY(SELECT place FROM found WHERE token IS NOT NULL))
),
granted AS (
    INSERT INTO rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, error, marks)
    SELECT
        seq, :queue, lease_until, token, COALESCE((CAST(:consumers AS TEXT[]))[slot], :consumer), :now, attempt, error, marks | :mark
    FROM found
    WHERE token IS NOT NULL
)

-- fragment: noted
noted AS (
    INSERT INTO rowq_audit (at, queue, seq, event, attempt, actor)
    SELECT :now, :queue, seq, 'delivered', attempt, COALESCE((CAST(:actors AS TEXT[]))[slot], :actor)
    FROM found
    WHERE token IS NOT NULL
)

-- fragment: noted_in_runs
noted AS (
    INSERT INTO rowq_audit (id, at, queue, seq, event, attempt, actor, seqs)
    SELECT rowq_draw_run('rowq_audit_ids', lines), :now, :queue, lead, 'delivered', attempt, actor, seqs
    FROM (
        SELECT {audit_run}, attempt, actor
        FROM (
            SELECT seq, attempt, COALESCE((CAST(:actors AS TEXT[]))[slot], :actor) AS actor
            FROM found
            WHERE token IS NOT NULL
        ) AS line
        GROUP BY seq / 64, attempt, actor
        ORDER BY MIN(seq)
    ) AS run
)

-- fragment: delivery
seq, :queue, attempt, token, lease_until, format, payload, headers, sent_at, message_key, group_key, priority, own_id

-- fragment: head
(SELECT ranking FROM head LIMIT 1), (SELECT position FROM head LIMIT 1)

-- name: claim_ready
WITH {first},
{claimed}
SELECT {delivery}
FROM found;

-- name: claim_ready_audited
WITH {first},
{claimed},
{noted}
SELECT {delivery}
FROM found;

-- name: claim_ready_audited_in_runs
WITH {first},
{claimed},
{noted_in_runs}
SELECT {delivery}
FROM found;

-- name: claim_share
WITH {first_of_share},
{claimed}
SELECT {delivery}, {head}
FROM found;

-- name: claim_share_audited
WITH {first_of_share},
{claimed},
{noted}
SELECT {delivery}, {head}
FROM found;

-- name: claim_share_audited_in_runs
WITH {first_of_share},
{claimed},
{noted_in_runs}
SELECT {delivery}, {head}
FROM found;

-- name: look_at_ready
-- What a claim has locked but not leased, with the columns of take_ready.
SELECT {ready_row}
FROM rowq_messages m
LEFT JOIN rowq_moved v ON v.seq = m.seq
JOIN rowq_ready r ON r.queue = m.queue AND r.ranking = -m.priority AND r.position = COALESCE(v.position, m.seq) AND r.seq = m.seq
WHERE m.seq IN (:seqs[]);

-- name: find_ready
-- The queues that have ready messages, for waiting receives that get no notifications.
SELECT waiting.queue
FROM UNNEST(CAST(:queues[] AS TEXT[])) AS waiting (queue)
WHERE EXISTS (SELECT 1 FROM rowq_ready r WHERE r.queue = waiting.queue);
