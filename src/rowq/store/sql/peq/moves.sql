-- Moves between the tables of the engine, for those who come in by SQL: what store/transition.py and store/expiry.py write for one message.
--
-- Messages with a key or a group hang together with others, in an order of locks that is the engine's own affair: they are left to it.

CREATE OR REPLACE FUNCTION {door}.rowq_now()
RETURNS BIGINT
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN floor(extract(EPOCH FROM clock_timestamp()) * 1000)::BIGINT;
END
$$;

-- The id that a message has on every side: one that its sender brought, if it is a UUID, else the one that carries the seq.
CREATE OR REPLACE FUNCTION {door}.rowq_id(seq BIGINT, sent_at BIGINT, own_id TEXT)
RETURNS UUID
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF own_id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN
        RETURN own_id::UUID;
    END IF;
    RETURN (lpad(to_hex(sent_at), 12, '0') || '7000' || to_hex(seq | (-9223372036854775808)))::UUID;
END
$$;

-- The seq of a message of this queue; NULL where there is none.
CREATE OR REPLACE FUNCTION {door}.rowq_find(msg_id UUID)
RETURNS BIGINT
LANGUAGE plpgsql STABLE
{pinned}
AS $$
DECLARE
    found_seq BIGINT;
BEGIN
    SELECT o.seq INTO found_seq FROM {tables}.rowq_own_ids o WHERE o.id = msg_id::TEXT AND o.queue = '{queue}';
    IF FOUND THEN
        RETURN found_seq;
    END IF;
    SELECT known.seq INTO found_seq
    FROM (
        SELECT m.seq, m.sent_at FROM {tables}.rowq_messages m
        WHERE m.seq = {door}.rowq_seq(msg_id) AND m.queue = '{queue}'
        UNION ALL
        SELECT h.seq, h.sent_at FROM {tables}.rowq_history h
        WHERE h.seq = {door}.rowq_seq(msg_id) AND h.queue = '{queue}'
        UNION ALL
        SELECT a.seq, a.at FROM {tables}.rowq_audit_lines a
        WHERE a.lead IN ({door}.rowq_seq(msg_id), -1 - {door}.rowq_seq(msg_id) / 64)
            AND a.seq = {door}.rowq_seq(msg_id) AND a.queue = '{queue}' AND a.event = 'enqueued'
    ) AS known
    WHERE {door}.rowq_id(known.seq, known.sent_at, NULL) = msg_id
    LIMIT 1;
    RETURN found_seq;
END
$$;

-- The seq inside an id of ours; NULL for any other.
CREATE OR REPLACE FUNCTION {door}.rowq_seq(msg_id UUID)
RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF msg_id::TEXT !~ '^.{8}-.{4}-7000-[89ab]' THEN
        RETURN NULL;
    END IF;
    RETURN ('x' || right(replace(msg_id::TEXT, '-', ''), 16))::BIT(64)::BIGINT & 4611686018427387903;
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_note(
    policy JSONB, now BIGINT, seq BIGINT, event TEXT, attempt BIGINT, actor TEXT, detail TEXT DEFAULT NULL
)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
BEGIN
    IF (policy ->> 'audit')::BOOLEAN THEN
        INSERT INTO {tables}.rowq_audit (at, queue, seq, event, attempt, actor, detail)
        VALUES (now, '{queue}', seq, event, attempt, actor, detail);
    END IF;
END
$$;

-- Wakes those who wait for messages, or tells that settings have changed: what store/postgresql/notifier.py hears.
CREATE OR REPLACE FUNCTION {door}.rowq_tell(tidings TEXT)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    identity BIGINT;
BEGIN
    SELECT c.value INTO identity FROM {tables}.rowq_counters c WHERE c.name = 'identity';
    PERFORM pg_notify('rowq_' || identity, format('["sql",%s]', tidings));
END
$$;

-- A message has become ready, at that place.
CREATE OR REPLACE FUNCTION {door}.rowq_wake(ranking BIGINT, place BIGINT)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {door}.rowq_tell(format('[{"{queue}":[1,[%s,%s]]},false]', ranking, place));
END
$$;

-- Into the state where a change leads, with all that hangs on a message. Whoever calls has taken it out of the state where it was.
CREATE OR REPLACE FUNCTION {door}.rowq_put(
    moved BIGINT, change JSONB, policy JSONB, now BIGINT, attempts BIGINT, consumer TEXT, leased_at BIGINT, actor TEXT
)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    m RECORD;
    due BIGINT := (change ->> 'due')::BIGINT;
    expires_at BIGINT := (change ->> 'expires_at')::BIGINT;
    error TEXT := change ->> 'error';
    reason TEXT := change ->> 'reason';
    outcome TEXT := change ->> 'outcome';
    keep TEXT := change ->> 'keep';
    ends_at BIGINT;
    place BIGINT := moved;
BEGIN
    SELECT b.sent_at, b.priority, b.deadline_ms, b.kv_keys, b.own_id INTO STRICT m FROM {tables}.rowq_messages b WHERE b.seq = moved;

    IF change ->> 'kind' = 'waiting' THEN
        ends_at := LEAST(expires_at, m.sent_at + m.deadline_ms);
        IF ends_at IS NOT NULL THEN
            INSERT INTO {tables}.rowq_expiring AS e (seq, queue, ends_at) VALUES (moved, '{queue}', ends_at)
            ON CONFLICT (seq) DO UPDATE SET ends_at = excluded.ends_at;
        END IF;
        IF due > now THEN
            INSERT INTO {tables}.rowq_scheduled (queue, due, seq, attempts, expires_at, error)
            VALUES ('{queue}', due, moved, (change ->> 'attempts')::BIGINT, expires_at, error);
            RETURN;
        END IF;
        IF policy ->> 'order' = 'ready' THEN
            place := nextval('{tables}.rowq_seq');
            INSERT INTO {tables}.rowq_moved (seq, position) VALUES (moved, place);
        END IF;
        INSERT INTO {tables}.rowq_ready (queue, ranking, position, seq, attempts, expires_at, error)
        VALUES ('{queue}', -m.priority, place, moved, (change ->> 'attempts')::BIGINT, expires_at, error);
        PERFORM {door}.rowq_wake(-m.priority, place);
        RETURN;
    END IF;

    DELETE FROM {tables}.rowq_expiring e WHERE e.seq = moved;
    IF m.kv_keys IS NOT NULL AND (reason IS NOT NULL OR outcome IN ('failed', 'expired')) THEN
        INSERT INTO {tables}.rowq_kv AS k (entry_key, format, value, written_at, message_id)
        SELECT DISTINCT ON (entry.key::TEXT)
            entry.key::TEXT, b.format, b.payload, now, COALESCE(b.own_id, {door}.rowq_id(b.seq, b.sent_at, NULL)::TEXT)
        FROM {tables}.rowq_messages b, json_array_elements(convert_from(b.kv_keys, 'UTF8')::JSON) AS entry (key)
        WHERE b.seq = moved
        ON CONFLICT (entry_key) DO UPDATE
        SET format = excluded.format, value = excluded.value, written_at = excluded.written_at, message_id = excluded.message_id;
    END IF;
    IF reason IS NOT NULL THEN
        INSERT INTO {tables}.rowq_dead (queue, seq, due, attempts, redeliveries, reason, error, died_at)
        VALUES ('{queue}', moved, due, attempts, 0, reason, error, now);
        PERFORM {door}.rowq_note(policy, now, moved, 'dead', attempts, actor, concat_ws(': ', reason, error));
        RETURN;
    END IF;

    IF outcome <> 'acked' THEN
        PERFORM {door}.rowq_note(policy, now, moved, outcome, attempts, actor, error);
    END IF;
    IF keep <> 'none' THEN
        INSERT INTO {tables}.rowq_history (
            seq, queue, outcome, sent_at, leased_at, finished_at, attempts, consumer, error, message_key, group_key, priority, own_id
        )
        VALUES (moved, '{queue}', outcome, m.sent_at, leased_at, now, attempts, consumer, error, NULL, NULL, m.priority, m.own_id);
    ELSIF m.own_id IS NOT NULL THEN
        -- The id stays taken while the audit can tell its story.
        UPDATE {tables}.rowq_own_ids o SET gone_at = now WHERE o.id = m.own_id AND o.queue = '{queue}' AND (policy ->> 'audit')::BOOLEAN;
        IF NOT FOUND THEN
            DELETE FROM {tables}.rowq_own_ids o WHERE o.id = m.own_id AND o.queue = '{queue}';
        END IF;
    END IF;
    IF keep <> 'body' THEN
        DELETE FROM {tables}.rowq_messages b WHERE b.seq = moved;
    END IF;
END
$$;

-- What the rules need to know of a message that is delivered so often, expires then and failed so.
CREATE OR REPLACE FUNCTION {door}.rowq_standing(standing_of BIGINT, attempts BIGINT, expires_at BIGINT, error TEXT)
RETURNS JSONB
LANGUAGE plpgsql STABLE
{pinned}
AS $$
BEGIN
    RETURN (
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'attempts', attempts,
            'expires_at', expires_at,
            'error', error,
            'deadline', b.sent_at + b.deadline_ms,
            'max_attempts', b.max_attempts,
            'backoff', convert_from(b.backoff, 'UTF8')::JSONB
        ))
        FROM {tables}.rowq_messages b
        WHERE b.seq = standing_of
    );
END
$$;

-- The queue's policy, unless the consumer has asked for another mode of delivery.
CREATE OR REPLACE FUNCTION {door}.rowq_policy_of_lease(policy JSONB, marks BIGINT)
RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN policy || CASE
        WHEN marks & {at_most_once} > 0 THEN '{"delivery": "at_most_once"}'::JSONB
        WHEN marks & {at_least_once} > 0 THEN '{"delivery": "at_least_once"}'::JSONB
        ELSE '{}'::JSONB
    END;
END
$$;

-- One due message and one whose lease ran out, back into ready: somebody is asking for them. Of those that are longest due the one that
-- stands first, and no more: until the caller's transaction ends nobody else sees what was moved here. What a stream holds never runs out,
-- and dead letters that somebody has received are the engine's.
CREATE OR REPLACE FUNCTION {door}.rowq_take_up(policy JSONB, now BIGINT)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    overdue BIGINT[];
    due RECORD;
    l RECORD;
    change JSONB;
    of_lease JSONB;
BEGIN
    overdue := ARRAY(SELECT s.seq FROM {tables}.rowq_scheduled s WHERE s.queue = '{queue}' AND s.due <= now ORDER BY s.due LIMIT 100);
    IF overdue <> '{}' THEN
        SELECT s.seq, s.attempts, s.expires_at, s.error INTO due
        FROM {tables}.rowq_scheduled s
        CROSS JOIN LATERAL (SELECT b.priority FROM {tables}.rowq_messages b WHERE b.seq = s.seq LIMIT 1) AS m
        WHERE s.seq = ANY (overdue)
        ORDER BY m.priority DESC, CASE policy ->> 'order' WHEN 'ready' THEN s.due ELSE s.seq END, s.seq
        LIMIT 1
        FOR UPDATE OF s SKIP LOCKED;
        IF FOUND THEN
            DELETE FROM {tables}.rowq_scheduled s WHERE s.seq = due.seq;
            change := jsonb_build_object(
                'kind', 'waiting', 'due', now, 'attempts', due.attempts, 'expires_at', due.expires_at, 'error', due.error
            );
            PERFORM {door}.rowq_put(due.seq, change, policy, now, due.attempts, NULL, NULL, NULL);
        END IF;
    END IF;

    FOR look IN 1..100 LOOP
        overdue := ARRAY(
            SELECT held.seq
            FROM {tables}.rowq_leased held
            WHERE held.queue = '{queue}' AND held.lease_until <= now AND held.reason IS NULL AND held.marks & {bound} = 0
            ORDER BY held.lease_until
            LIMIT 100
        );
        EXIT WHEN overdue = '{}';
        SELECT held.seq, held.attempts, held.expires_at, held.error, held.consumer, held.leased_at, held.marks INTO l
        FROM {tables}.rowq_leased held
        CROSS JOIN LATERAL (SELECT b.priority FROM {tables}.rowq_messages b WHERE b.seq = held.seq LIMIT 1) AS m
        WHERE held.seq = ANY (overdue) AND held.lease_until <= now
        ORDER BY m.priority DESC, held.seq
        LIMIT 1
        FOR UPDATE OF held SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        of_lease := {door}.rowq_policy_of_lease(policy, l.marks);
        change := {door}.rowq_decide(
            {door}.rowq_standing(l.seq, l.attempts, l.expires_at, l.error), '{"kind": "lease_expired"}', of_lease, now, random()
        );
        PERFORM {door}.rowq_note(policy, now, l.seq, 'lease_expired', l.attempts, l.consumer);
        DELETE FROM {tables}.rowq_leased held WHERE held.seq = l.seq;
        PERFORM {door}.rowq_put(l.seq, change, of_lease, now, l.attempts, l.consumer, l.leased_at, NULL);
        EXIT WHEN change ->> 'kind' = 'waiting' AND (change ->> 'due')::BIGINT <= now;
    END LOOP;
END
$$;

-- How many a queue with a throughput_limit may give now; NULL without a limit. Whoever has asked comes before everybody else who asks.
CREATE OR REPLACE FUNCTION {door}.rowq_allowance(policy JSONB)
RETURNS DOUBLE PRECISION
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    most DOUBLE PRECISION := NULLIF((policy ->> 'throughput_limit')::DOUBLE PRECISION, 0);
    bucket RECORD;
BEGIN
    IF most IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO {tables}.rowq_buckets (queue, tokens, filled_at) VALUES ('{queue}', most, {door}.rowq_now()) ON CONFLICT (queue) DO NOTHING;
    SELECT b.tokens, b.filled_at INTO bucket FROM {tables}.rowq_buckets b WHERE b.queue = '{queue}' FOR UPDATE;
    RETURN LEAST(most, bucket.tokens + GREATEST(0, {door}.rowq_now() - bucket.filled_at) * most / 1000);
END
$$;
