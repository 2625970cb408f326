-- What a client of PEQ calls: each is one verb of the engine, for one message. They act with the rights of whoever calls them, find their
-- tables by full names, and refuse with a sentence, a hint and a standard SQLSTATE.

CREATE OR REPLACE FUNCTION {door}.uuid_generate_v4()
RETURNS UUID
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN gen_random_uuid();
END
$$;

-- What a sender gives, as the engine keeps it: as it stands, if every reader can read it.
CREATE OR REPLACE FUNCTION {door}.rowq_payload(message_json JSON, policy JSONB)
RETURNS BYTEA
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    content TEXT := message_json::TEXT;
    payload BYTEA := convert_to(content, 'UTF8');
    most BIGINT := (policy ->> 'max_payload_bytes')::BIGINT;
BEGIN
    IF message_json IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'a message needs a payload', HINT = 'Nothing is written as ''null'' in JSON.';
    ELSIF jsonb_typeof(policy -> 'schema') = 'object' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'the queue {queue} has a JSON schema, which SQL cannot check',
            HINT = 'Send by Python or HTTP, or remove the schema from the settings of the queue.';
    ELSIF length(payload) > most THEN
        RAISE program_limit_exceeded USING
            MESSAGE = format('the payload takes %s bytes, the queue {queue} allows %s', length(payload), most),
            HINT = 'Send a reference to it, or raise max_payload_bytes.';
    ELSIF NOT {door}.rowq_is_readable(content) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'not every reader could read this payload',
            HINT = 'Numbers fit into a double, text is whole characters, and nothing is nested more than {deepest} levels deep.';
    END IF;
    RETURN payload;
END
$$;

-- JSON in PostgreSQL takes half characters, numbers of any size and any depth. It is looked at closely only where it may have some.
CREATE OR REPLACE FUNCTION {door}.rowq_is_readable(content TEXT)
RETURNS BOOLEAN
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    document JSONB;
BEGIN
    IF content !~ '\\u[dD][89a-fA-F]|[0-9][eE][+]?[0-9]{3}|[0-9]{200}'
        AND length(content) - length(translate(content, '[{', '')) <= {deepest}
    THEN
        RETURN TRUE;
    END IF;
    document := replace(content, '\u0000', '\u0020')::JSONB;  -- the one character that JSONB lacks
    RETURN NOT jsonb_path_exists(document, 'strict $.**{deeper} ? (@.type() == "object" || @.type() == "array")')
        AND NOT jsonb_path_exists(document, 'strict $.** ? (@.type() == "number" && @.abs() > 1.797693134862315e308)');
EXCEPTION
    WHEN data_exception OR statement_too_complex THEN
        RETURN FALSE;
END
$$;

-- An id that looks like one of the engine's, and is: it names one message only.
CREATE OR REPLACE FUNCTION {door}.rowq_is_given_out(msg_id UUID)
RETURNS BOOLEAN
LANGUAGE plpgsql STABLE
{pinned}
AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM {tables}.rowq_messages m
        WHERE m.seq = {door}.rowq_seq(msg_id) AND {door}.rowq_id(m.seq, m.sent_at, NULL) = msg_id
    ) OR EXISTS (
        SELECT 1 FROM {tables}.rowq_history h
        WHERE h.seq = {door}.rowq_seq(msg_id) AND {door}.rowq_id(h.seq, h.sent_at, NULL) = msg_id
    );
END
$$;

-- Stops counting at the limit: a full queue of millions is as quick to refuse as a small one.
CREATE OR REPLACE FUNCTION {door}.rowq_check_depth(policy JSONB)
RETURNS VOID
LANGUAGE plpgsql STABLE
{pinned}
AS $$
DECLARE
    most BIGINT := (policy ->> 'max_depth')::BIGINT;
    depth BIGINT;
BEGIN
    IF most = 0 THEN
        RETURN;
    END IF;
    SELECT COUNT(*) INTO depth
    FROM (
        (SELECT 1 FROM {tables}.rowq_ready r WHERE r.queue = '{queue}' LIMIT most)
        UNION ALL
        (SELECT 1 FROM {tables}.rowq_scheduled s WHERE s.queue = '{queue}' LIMIT most)
        UNION ALL
        (SELECT 1 FROM {tables}.rowq_leased l WHERE l.queue = '{queue}' AND l.reason IS NULL LIMIT most)
        UNION ALL
        (SELECT 1 FROM {tables}.rowq_blocked b WHERE b.queue = '{queue}' LIMIT most)
    ) AS all_of_them;
    IF depth >= most THEN
        RAISE configuration_limit_exceeded USING
            MESSAGE = format('the queue {queue} holds %s of at most %s messages', depth, most),
            HINT = 'Wait until some are done, or raise max_depth.';
    END IF;
END
$$;

CREATE OR REPLACE PROCEDURE {door}.enqueue(
    message_json JSON, message_id UUID DEFAULT NULL, delay_seconds INTEGER DEFAULT 0, created_by TEXT DEFAULT 'system'
)
LANGUAGE plpgsql
{pinned}
AS $$
DECLARE
    now BIGINT := {door}.rowq_now();
    policy JSONB := {door}.rowq_policy();
    payload BYTEA := {door}.rowq_payload(message_json, policy);
    own_id TEXT := message_id::TEXT;
    delay_ms BIGINT := GREATEST(COALESCE(delay_seconds, 0), 0) * 1000::BIGINT;
    due BIGINT := now + delay_ms;
    expires_at BIGINT := {door}.rowq_expires_at(policy, now, due, NULL);
    new_seq BIGINT;
BEGIN
    IF delay_ms > {longest} THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('a delay of %s seconds is too long', delay_seconds), HINT = 'Delays are 366 days at most.';
    END IF;
    PERFORM {door}.rowq_check_depth(policy);
    INSERT INTO {tables}.rowq_queues (name, settings, created_at) VALUES ('{queue}', '{settings}', now) ON CONFLICT (name) DO NOTHING;
    IF FOUND THEN  -- somebody had deleted the queue, and others may remember it without settings
        UPDATE {tables}.rowq_counters c SET value = c.value + 1 WHERE c.name = 'settings';
        PERFORM {door}.rowq_tell('[{},true]');
    END IF;
    new_seq := nextval('{tables}.rowq_seq');
    IF own_id IS NOT NULL THEN
        INSERT INTO {tables}.rowq_own_ids (id, seq, queue) VALUES (own_id, new_seq, '{queue}') ON CONFLICT DO NOTHING;
        IF NOT FOUND OR {door}.rowq_is_given_out(message_id) THEN
            RAISE unique_violation USING
                MESSAGE = format('a message with the id %s was sent already', own_id), HINT = 'Send each id once.';
        END IF;
    END IF;
    INSERT INTO {tables}.rowq_messages (seq, sent_at, queue, format, payload, priority, delay_ms, own_id, marks)
    VALUES (new_seq, now, '{queue}', 1, payload, 0, delay_ms, own_id, CASE WHEN own_id IS NULL THEN 0 ELSE {has_own_id} END);
    PERFORM {door}.rowq_note(policy, now, new_seq, 'enqueued', NULL, COALESCE(created_by, 'system'));
    IF expires_at IS NOT NULL THEN
        INSERT INTO {tables}.rowq_expiring (seq, queue, ends_at) VALUES (new_seq, '{queue}', expires_at);
    END IF;
    IF due > now THEN
        INSERT INTO {tables}.rowq_scheduled (queue, due, seq, attempts, expires_at) VALUES ('{queue}', due, new_seq, 0, expires_at);
    ELSE
        INSERT INTO {tables}.rowq_ready (queue, ranking, position, seq, attempts, expires_at)
        VALUES ('{queue}', 0, new_seq, new_seq, 0, expires_at);
        PERFORM {door}.rowq_wake(0, new_seq);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION {door}.dequeue(client_id TEXT, lease_duration INTEGER DEFAULT NULL)
RETURNS TABLE (msg_id UUID, expires TIMESTAMPTZ, msg_json JSON)
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    now BIGINT;
    policy JSONB := {door}.rowq_policy();
    lease_ms BIGINT := CASE WHEN lease_duration > 0 THEN lease_duration * 1000::BIGINT ELSE (policy ->> 'lease_ms')::BIGINT END;
    allowance DOUBLE PRECISION;
    until BIGINT;
    change JSONB;
    r RECORD;
BEGIN
    IF COALESCE(client_id, '') = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a client_id is needed', HINT = 'Give each client a name of its own.';
    ELSIF lease_ms > {longest} THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('a lease of %s seconds is too long', lease_duration), HINT = 'Leases are 366 days at most.';
    END IF;
    -- What there is when there is nothing.
    msg_id := '00000000-0000-0000-0000-000000000000';
    msg_json := '{}';
    IF (policy ->> 'paused')::BOOLEAN THEN
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM {door}.rowq_take_up(policy, {door}.rowq_now());
    allowance := {door}.rowq_allowance(policy);
    now := {door}.rowq_now();  -- others may have kept us waiting
    -- It has an end, so that a call does too where very many have expired; the next one goes on.
    FOR look IN 1..1000 LOOP
        EXIT WHEN allowance < 1;
        -- The limit makes the planner walk the index, and look up each body: by old statistics of a small table it would read all of them.
        SELECT ready.ranking, ready.position, ready.seq, ready.attempts, ready.expires_at, ready.error, m.*
        INTO r
        FROM {tables}.rowq_ready ready
        CROSS JOIN LATERAL (
            SELECT b.marks, b.sent_at, b.deadline_ms, b.own_id, b.format, b.payload
            FROM {tables}.rowq_messages b
            WHERE b.seq = ready.seq AND b.marks & {bound} = 0
            LIMIT 1
        ) AS m
        WHERE ready.queue = '{queue}'
        ORDER BY ready.ranking, ready.position, ready.seq
        LIMIT 1
        FOR UPDATE OF ready SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        change := CASE
            WHEN r.expires_at <= now OR r.marks & {has_deadline} > 0
            THEN {door}.rowq_decide(
                {door}.rowq_standing(r.seq, r.attempts, r.expires_at, r.error), '{"kind": "expire"}', policy, now, 0
            )
        END;
        DELETE FROM {tables}.rowq_ready ready
        WHERE ready.queue = '{queue}' AND ready.ranking = r.ranking AND ready.position = r.position AND ready.seq = r.seq;
        IF r.position <> r.seq THEN
            DELETE FROM {tables}.rowq_moved v WHERE v.seq = r.seq;
        END IF;
        IF change IS NULL THEN
            until := {door}.rowq_lease_until(now, lease_ms, r.sent_at + r.deadline_ms);
            INSERT INTO {tables}.rowq_leased (seq, queue, lease_until, token, consumer, leased_at, attempts, expires_at, error, marks)
            VALUES (r.seq, '{queue}', until, {door}.rowq_token(), client_id, now, r.attempts + 1, r.expires_at, r.error, r.marks);
            PERFORM {door}.rowq_note(
                policy, now, r.seq, 'delivered', r.attempts + 1, client_id, 'dequeued. lease seconds: ' || trim_scale(lease_ms / 1000.0)
            );
            msg_id := {door}.rowq_id(r.seq, r.sent_at, r.own_id);
            expires := to_timestamp(until / 1000.0);
            msg_json := {door}.rowq_json(r.format, r.payload);
            IF allowance IS NOT NULL THEN
                UPDATE {tables}.rowq_buckets b SET tokens = allowance - 1, filled_at = now WHERE b.queue = '{queue}';
            END IF;
            EXIT;
        END IF;
        IF change ->> 'kind' = 'dead' THEN
            PERFORM {door}.rowq_note(policy, now, r.seq, 'expired', r.attempts, client_id);
        END IF;
        PERFORM {door}.rowq_put(r.seq, change, policy, now, r.attempts, NULL, NULL, client_id);
        PERFORM {door}.rowq_take_up(policy, now);  -- it may have been the one that was taken up
    END LOOP;
    RETURN NEXT;
END
$$;

-- 63 random bits, of which no two leases have the same.
CREATE OR REPLACE FUNCTION {door}.rowq_token()
RETURNS BIGINT
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    digits TEXT := replace(gen_random_uuid()::TEXT, '-', '');
BEGIN
    RETURN ('x' || left(digits, 12) || right(digits, 4))::BIT(64)::BIGINT & 9223372036854775807;
END
$$;

-- A payload of bytes, as it is written over HTTP.
CREATE OR REPLACE FUNCTION {door}.rowq_json(format BIGINT, payload BYTEA)
RETURNS JSON
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE format
        WHEN 1 THEN convert_from(payload, 'UTF8')::JSON
        WHEN 0 THEN json_build_object('payload_base64', translate(encode(payload, 'base64'), E'\n', ''))
    END;
END
$$;

-- What a client says of a message that it holds.
CREATE OR REPLACE FUNCTION {door}.rowq_settle(msg_id UUID, client_id TEXT, reason TEXT, verdict JSONB, event TEXT)
RETURNS VOID
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    settled BIGINT := {door}.rowq_find(msg_id);
    policy JSONB := {door}.rowq_policy();
    now BIGINT;
    change JSONB;
    l RECORD;
BEGIN
    SELECT held.* INTO l FROM {tables}.rowq_leased held WHERE held.seq = settled AND held.queue = '{queue}' FOR UPDATE;
    now := {door}.rowq_now();
    IF l.seq IS NULL
        OR (l.consumer = client_id) IS NOT TRUE  -- who has no name is nobody in particular
        OR l.lease_until < now
        OR l.lease_until = {until_settled}
        OR l.reason IS NOT NULL
    THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the message %s is not with the client %s, or no longer: the lease expired', msg_id, client_id),
            HINT = 'Nothing was changed. Work that takes longer needs a longer lease_duration.';
    ELSIF l.marks & {bound} > 0 THEN
        RAISE feature_not_supported USING
            MESSAGE = format('the message %s has a key or a group', msg_id), HINT = 'Settle it by its receipt, with Python or HTTP.';
    ELSIF (policy ->> 'require_receipt')::BOOLEAN THEN
        RAISE feature_not_supported USING
            MESSAGE = 'the queue {queue} settles by receipt alone', HINT = 'Settle by Python or HTTP, or set require_receipt to false.';
    END IF;
    policy := {door}.rowq_policy_of_lease(policy, l.marks);
    verdict := verdict || jsonb_strip_nulls(jsonb_build_object('error', reason));
    change := {door}.rowq_decide({door}.rowq_standing(l.seq, l.attempts, l.expires_at, l.error), verdict, policy, now, random());
    PERFORM {door}.rowq_note(policy, now, l.seq, event, l.attempts, client_id, reason);
    DELETE FROM {tables}.rowq_leased held WHERE held.seq = l.seq;
    PERFORM {door}.rowq_put(l.seq, change, policy, now, l.attempts, l.consumer, l.leased_at, client_id);
END
$$;

CREATE OR REPLACE PROCEDURE {door}.message_ack(msg_id UUID, client_id TEXT, reason TEXT DEFAULT 'ack')
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {door}.rowq_settle(msg_id, client_id, reason, '{"kind": "ack"}', 'acked');
END
$$;

CREATE OR REPLACE PROCEDURE {door}.message_nak(msg_id UUID, client_id TEXT, reason TEXT DEFAULT 'nak')
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {door}.rowq_settle(msg_id, client_id, reason, '{"kind": "nack"}', 'nacked');
END
$$;

CREATE OR REPLACE PROCEDURE {door}.message_rej(msg_id UUID, client_id TEXT, reason TEXT DEFAULT 'rej')
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM {door}.rowq_settle(msg_id, client_id, reason, '{"kind": "reject"}', 'rejected');
END
$$;

-- Takes a message out of wherever it waits or is held, whoever holds it: its lease ends here. Another transaction may move it from one
-- table into another while we look: then we look again.
CREATE OR REPLACE FUNCTION {door}.rowq_take_out(msg_id UUID, OUT seq BIGINT, OUT attempts BIGINT, OUT expires_at BIGINT, OUT error TEXT)
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    wanted BIGINT := {door}.rowq_find(msg_id);
    m RECORD;
BEGIN
    SELECT b.marks, b.priority INTO m FROM {tables}.rowq_messages b WHERE b.seq = wanted;
    IF m.marks & {bound} > 0 THEN
        RAISE feature_not_supported USING
            MESSAGE = format('the message %s has a key or a group', msg_id), HINT = 'Reschedule it by its receipt, with Python or HTTP.';
    END IF;
    FOR look IN 1..50 LOOP
        DELETE FROM {tables}.rowq_leased l WHERE l.seq = wanted AND l.reason IS NULL AND l.lease_until < {until_settled}
        RETURNING l.seq, l.attempts, l.expires_at, l.error INTO seq, attempts, expires_at, error;
        IF NOT FOUND THEN
            DELETE FROM {tables}.rowq_scheduled s WHERE s.seq = wanted
            RETURNING s.seq, s.attempts, s.expires_at, s.error INTO seq, attempts, expires_at, error;
        END IF;
        IF NOT FOUND THEN
            DELETE FROM {tables}.rowq_ready r
            WHERE r.queue = '{queue}' AND r.ranking = -m.priority AND r.seq = wanted
                AND r.position = COALESCE((SELECT v.position FROM {tables}.rowq_moved v WHERE v.seq = wanted), wanted)
            RETURNING r.seq, r.attempts, r.expires_at, r.error INTO seq, attempts, expires_at, error;
        END IF;
        IF FOUND THEN
            DELETE FROM {tables}.rowq_moved v WHERE v.seq = wanted;
            RETURN;
        END IF;
        EXIT WHEN NOT {door}.rowq_is_in_the_queue(wanted);
    END LOOP;
    RAISE object_not_in_prerequisite_state USING
        MESSAGE = format('the message %s is not in the queue {queue}', msg_id),
        HINT = 'It is finished, a dead letter, in the hands of a stream, or was never sent here.';
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_is_in_the_queue(wanted BIGINT)
RETURNS BOOLEAN
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM {tables}.rowq_messages b WHERE b.seq = wanted)
        AND NOT EXISTS (SELECT 1 FROM {tables}.rowq_dead d WHERE d.queue = '{queue}' AND d.seq = wanted)
        AND NOT EXISTS (SELECT 1 FROM {tables}.rowq_history h WHERE h.seq = wanted)
        AND NOT EXISTS (
            SELECT 1 FROM {tables}.rowq_leased l WHERE l.seq = wanted AND (l.reason IS NOT NULL OR l.lease_until = {until_settled})
        );
END
$$;

CREATE OR REPLACE PROCEDURE {door}.message_reschedule(
    msg_id UUID, delay_seconds INTEGER DEFAULT 3600, done_by TEXT DEFAULT 'system', reason_why TEXT DEFAULT 'rescheduled'
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    policy JSONB := {door}.rowq_policy();
    delay_ms BIGINT := GREATEST(COALESCE(NULLIF(delay_seconds, 0), 3600), 0) * 1000::BIGINT;
    now BIGINT;
    change JSONB;
    m RECORD;
BEGIN
    IF delay_ms > {longest} THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('a delay of %s seconds is too long', delay_seconds), HINT = 'Delays are 366 days at most.';
    END IF;
    m := {door}.rowq_take_out(msg_id);
    now := {door}.rowq_now();
    change := {door}.rowq_decide(
        {door}.rowq_standing(m.seq, m.attempts, m.expires_at, m.error),
        jsonb_strip_nulls(jsonb_build_object('kind', 'reschedule', 'delay', delay_ms, 'error', reason_why)),
        policy, now, 0
    );
    PERFORM {door}.rowq_note(policy, now, m.seq, 'rescheduled', m.attempts, COALESCE(done_by, 'system'), reason_why);
    PERFORM {door}.rowq_put(m.seq, change, policy, now, m.attempts, NULL, NULL, done_by);
END
$$;

CREATE OR REPLACE PROCEDURE {door}.add_audit(msg_id UUID, state_id INTEGER, audit_by CHARACTER VARYING, reason_why TEXT)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    noted BIGINT := {door}.rowq_find(msg_id);
BEGIN
    IF noted IS NULL THEN
        RAISE no_data_found USING
            MESSAGE = format('there is no message %s in the queue {queue}', msg_id), HINT = 'It was never sent here, or is long forgotten.';
    ELSIF NOT EXISTS (SELECT 1 FROM {door}.message_state s WHERE s.message_state_id = state_id) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is no state of a message', state_id), HINT = 'The view message_state lists them.';
    END IF;
    PERFORM {door}.rowq_note({door}.rowq_policy(), {door}.rowq_now(), noted, 'noted:' || state_id, NULL, audit_by, reason_why);
END
$$;
