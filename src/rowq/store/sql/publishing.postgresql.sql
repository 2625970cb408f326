-- Publishing on PostgreSQL: one statement writes body, state row and audit. Each message draws its own seq, because a long run of numbers
-- would be interrupted by any other producer that draws meanwhile.

-- name: publish_at_once
WITH sent AS (
    INSERT INTO rowq_messages (seq, sent_at, {columns})
    SELECT NEXTVAL('{schema}.rowq_seq'), :now, {columns}
    FROM (
        SELECT {columns}
        FROM rowq_staged
        WHERE stage = :stage AND queue = :queue AND {is_plain}
        ORDER BY place
    ) AS staged
    RETURNING seq, queue, priority
), ready AS (
    INSERT INTO rowq_ready (queue, ranking, position, seq, attempts)
    SELECT queue, -priority, seq, seq, 0
    FROM sent
), audited AS (
    INSERT INTO rowq_audit (id, at, queue, seq, event, actor, seqs)
    SELECT rowq_draw_run('rowq_audit_ids', lines), :now, :queue, lead, 'enqueued', :actor, seqs
    FROM (
        SELECT {audit_run}
        FROM sent
        WHERE :is_audited
        GROUP BY seq / 64
        ORDER BY MIN(seq)
    ) AS run
)
SELECT COUNT(*), MIN(seq) FROM sent;
