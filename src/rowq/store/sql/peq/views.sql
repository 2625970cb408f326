-- What a client of PEQ reads, as views of the tables of the engine: nothing is written twice. They are barriers: a condition of the
-- reader's never meets a row of another queue.

CREATE OR REPLACE VIEW {door}.message_state (message_state_id, state_title) AS
VALUES
    (1, 'queued'),
    (2, 'leased'),
    (3, 'history'),
    (32, 'history-recovered'),
    (4, 'rescheduled'),
    (5, 'lease-expired'),
    (6, 'message-expired'),
    (7, 'dead-letter'),
    (72, 'dead-letter-recovered'),
    (77, 'dead-letter-cron'),
    (88, 'dead-letter-retries-exceeded'),
    (91, 'no-queue-items'),
    (99, 'error');

-- A message that was rejected has one line for it, not one more that it is dead.
CREATE OR REPLACE VIEW {door}.message_audit WITH (security_barrier) AS
SELECT
    a.id AS audit_id,
    {door}.rowq_id(a.seq, COALESCE(m.sent_at, h.sent_at, sent.at), COALESCE(m.own_id, h.own_id, o.id)) AS message_id,
    CASE
        WHEN a.event LIKE 'noted:%' THEN split_part(a.event, ':', 2)::INTEGER
        WHEN a.event IN ('delivered', 'extended') THEN 2
        WHEN a.event IN ('acked', 'superseded') THEN 3
        WHEN a.event = 'rescheduled' THEN 4
        WHEN a.event = 'lease_expired' THEN 5
        WHEN a.event = 'expired' THEN 6
        WHEN a.event = 'redriven' THEN 72
        WHEN a.event = 'dead' AND a.detail LIKE 'max_attempts_reached%' THEN 88
        WHEN a.event IN ('rejected', 'dead', 'failed', 'deleted', 'purged') THEN 7
        ELSE 1
    END AS message_state_id,
    to_timestamp(a.at / 1000.0) AS audit_on,
    COALESCE(a.actor, 'system') AS audit_by,
    COALESCE(
        a.detail,
        CASE a.event WHEN 'delivered' THEN 'dequeued' WHEN 'acked' THEN 'ack' WHEN 'nacked' THEN 'nak' ELSE replace(a.event, '_', ' ') END
    ) AS reason_why
FROM {tables}.rowq_audit_lines a
LEFT JOIN {tables}.rowq_messages m ON m.seq = a.seq
LEFT JOIN {tables}.rowq_history h ON h.seq = a.seq AND m.seq IS NULL
LEFT JOIN {tables}.rowq_own_ids o ON o.queue = a.queue AND o.seq = a.seq AND o.gone_at IS NOT NULL
LEFT JOIN LATERAL (
    SELECT e.at
    FROM {tables}.rowq_audit_lines e
    WHERE e.lead IN (a.seq, -1 - a.seq / 64) AND e.seq = a.seq AND e.event = 'enqueued' AND m.seq IS NULL AND h.seq IS NULL
    LIMIT 1
) AS sent ON TRUE
WHERE a.queue = '{queue}'
    AND a.seq IS NOT NULL
    AND NOT (a.event = 'dead' AND a.detail LIKE 'rejected%');

CREATE OR REPLACE VIEW {door}.message_queue WITH (security_barrier) AS
SELECT
    {door}.rowq_id(m.seq, m.sent_at, m.own_id) AS message_id,
    CASE WHEN p.leased_by IS NULL THEN 1 ELSE 2 END AS message_state_id,
    p.retries,
    to_timestamp(COALESCE(p.due, m.sent_at + m.delay_ms) / 1000.0) AS available_on,
    to_timestamp(p.lease_until / 1000.0) AS lease_expires,
    p.leased_by,
    to_timestamp(m.sent_at / 1000.0) AS created_on,
    to_timestamp(p.expires_at / 1000.0) AS message_expires,
    {door}.rowq_json(m.format, m.payload) AS message_json
FROM (
    SELECT r.seq, r.attempts, NULL::BIGINT, NULL::BIGINT, NULL::TEXT, r.expires_at FROM {tables}.rowq_ready r WHERE r.queue = '{queue}'
    UNION ALL
    SELECT s.seq, s.attempts, s.due, NULL, NULL, s.expires_at FROM {tables}.rowq_scheduled s WHERE s.queue = '{queue}'
    UNION ALL
    SELECT b.seq, b.attempts, b.due, NULL, NULL, b.expires_at FROM {tables}.rowq_blocked b WHERE b.queue = '{queue}'
    UNION ALL
    SELECT l.seq, l.attempts - 1, NULL, l.lease_until, COALESCE(l.consumer, 'system'), l.expires_at
    FROM {tables}.rowq_leased l
    WHERE l.queue = '{queue}' AND l.reason IS NULL
) AS p (seq, retries, due, lease_until, leased_by, expires_at)
JOIN {tables}.rowq_messages m ON m.seq = p.seq;

-- The body is there where the queue keeps it.
CREATE OR REPLACE VIEW {door}.message_history WITH (security_barrier) AS
SELECT
    {door}.rowq_id(h.seq, h.sent_at, h.own_id) AS message_id,
    3 AS message_state_id,
    to_timestamp(h.sent_at / 1000.0) AS created_on,
    to_timestamp(h.finished_at / 1000.0) AS history_on,
    COALESCE(sent.actor, 'system') AS created_by,
    {door}.rowq_json(m.format, m.payload) AS message_json,
    COALESCE(ended.detail, h.error, h.outcome) AS reason_why
FROM {tables}.rowq_history h
LEFT JOIN {tables}.rowq_messages m ON m.seq = h.seq
LEFT JOIN LATERAL (
    SELECT a.actor
    FROM {tables}.rowq_audit_lines a
    WHERE a.lead IN (h.seq, -1 - h.seq / 64) AND a.seq = h.seq AND a.event = 'enqueued'
    LIMIT 1
) AS sent ON TRUE
LEFT JOIN LATERAL (
    SELECT a.detail
    FROM {tables}.rowq_audit_lines a
    WHERE a.lead IN (h.seq, -1 - h.seq / 64) AND a.seq = h.seq AND a.event = h.outcome
    ORDER BY a.id DESC
    LIMIT 1
) AS ended ON TRUE
WHERE h.queue = '{queue}';

CREATE OR REPLACE VIEW {door}.dead_letter WITH (security_barrier) AS
SELECT
    {door}.rowq_id(m.seq, m.sent_at, m.own_id) AS message_id,
    CASE d.reason WHEN 'message_expired' THEN 6 WHEN 'max_attempts_reached' THEN 88 ELSE 7 END AS message_state_id,
    to_timestamp(m.sent_at / 1000.0) AS created_on,
    to_timestamp(d.died_at / 1000.0) AS dead_on,
    COALESCE(sent.actor, 'system') AS created_by,
    {door}.rowq_json(m.format, m.payload) AS message_json,
    COALESCE(d.error, d.reason) AS reason_why
FROM {tables}.rowq_dead d
JOIN {tables}.rowq_messages m ON m.seq = d.seq
LEFT JOIN LATERAL (
    SELECT a.actor
    FROM {tables}.rowq_audit_lines a
    WHERE a.lead IN (d.seq, -1 - d.seq / 64) AND a.seq = d.seq AND a.event = 'enqueued'
    LIMIT 1
) AS sent ON TRUE
WHERE d.queue = '{queue}';

-- The settings of the queue, as far as they have a name here; what is set is set for everybody, whichever way they come in.
CREATE OR REPLACE VIEW {door}.queue_configuration AS
SELECT s.setting_name, trim_scale(s.amount)::TEXT AS setting_value, s.unit, s.notes
FROM {door}.rowq_policy() AS p (policy)
CROSS JOIN LATERAL (
    VALUES
        ('lease_duration', (policy ->> 'lease_ms')::NUMERIC / 1000, 'seconds', 'how long a message stays with a client'),
        ('max_retries', (policy ->> 'max_attempts')::NUMERIC - 1, 'count', 'retries after the first delivery; -1 for no limit'),
        ('item_ttl', (policy ->> 'ttl_ms')::NUMERIC / 60000, 'minutes', 'how long a message may wait; 0 for ever'),
        (
            'backoff_base',
            round((policy -> 'backoff' ->> 'base_ms')::NUMERIC / (policy -> 'backoff' ->> 'factor')::NUMERIC / 1000, 3),
            'seconds', 'a retry waits base x factor ^ retries; 0 for no wait'
        ),
        ('backoff_factor', (policy -> 'backoff' ->> 'factor')::NUMERIC, 'factor', 'a retry waits base x factor ^ retries'),
        ('backoff_jitter_min', (policy -> 'backoff' -> 'plus_ms' ->> 0)::NUMERIC / 1000, 'seconds', 'added to the wait, at least'),
        ('backoff_jitter_max', (policy -> 'backoff' -> 'plus_ms' ->> 1)::NUMERIC / 1000, 'seconds', 'added to the wait, at most'),
        ('dead_letter_retention', (policy ->> 'dlq_ttl_ms')::NUMERIC / 86400000, 'days', 'how long a dead letter is kept; 0 for ever'),
        ('history_retention', (policy ->> 'retention_ms')::NUMERIC / 86400000, 'days', 'how long a finished message is kept; 0 for ever'),
        ('audit_retention', (policy ->> 'audit_retention_ms')::NUMERIC / 86400000, 'days', 'how long the audit is kept; 0 for ever')
) AS s (setting_name, amount, unit, notes);

-- Settings of the queue with one of them as it is named here; NULL puts it back to what a new queue has.
CREATE OR REPLACE FUNCTION {door}.rowq_with(stored JSONB, setting_name TEXT, amount NUMERIC)
RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fresh JSONB := {door}.rowq_resolve('{settings}');
    field TEXT;
    unit BIGINT;
    shift BIGINT := 0;
    least_ms BIGINT := 0;
    backoff JSONB;
BEGIN
    CASE setting_name
        WHEN 'lease_duration' THEN field := 'lease_ms'; unit := 1000; least_ms := 1;
        WHEN 'max_retries' THEN field := 'max_attempts'; unit := 1; shift := 1;
        WHEN 'item_ttl' THEN field := 'ttl_ms'; unit := 60000;
        WHEN 'dead_letter_retention' THEN field := 'dlq_ttl_ms'; unit := 86400000;
        WHEN 'history_retention' THEN field := 'retention_ms'; unit := 86400000;
        WHEN 'audit_retention' THEN field := 'audit_retention_ms'; unit := 86400000;
        WHEN 'backoff_base', 'backoff_factor', 'backoff_jitter_min', 'backoff_jitter_max' THEN
            backoff := CASE stored -> 'backoff' ->> 'kind' WHEN 'exponential' THEN stored -> 'backoff' ELSE fresh -> 'backoff' END;
            RETURN stored || jsonb_build_object('backoff', {door}.rowq_backoff_with(backoff, fresh -> 'backoff', setting_name, amount));
    END CASE;
    IF round(amount * unit) + shift NOT BETWEEN least_ms AND {longest} THEN
        RAISE numeric_value_out_of_range;
    END IF;
    RETURN stored || jsonb_build_object(field, COALESCE(to_jsonb((round(amount * unit) + shift)::BIGINT), fresh -> field));
END
$$;

-- An exponential backoff with one of its four numbers. It counts from the first retry, which waits the base times the factor.
CREATE OR REPLACE FUNCTION {door}.rowq_backoff_with(backoff JSONB, fresh JSONB, setting_name TEXT, amount NUMERIC)
RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    factor NUMERIC := backoff ->> 'factor';
    base NUMERIC := (backoff ->> 'base_ms')::NUMERIC / factor;
    low NUMERIC := backoff -> 'plus_ms' ->> 0;
    high NUMERIC := backoff -> 'plus_ms' ->> 1;
    cap NUMERIC := COALESCE(NULLIF((backoff ->> 'cap_ms')::NUMERIC, 0), {longest});
BEGIN
    CASE setting_name
        WHEN 'backoff_base' THEN base := COALESCE(amount * 1000, (fresh ->> 'base_ms')::NUMERIC);
        WHEN 'backoff_factor' THEN factor := COALESCE(amount, (fresh ->> 'factor')::NUMERIC);
        WHEN 'backoff_jitter_min' THEN low := COALESCE(amount * 1000, (fresh -> 'plus_ms' ->> 0)::NUMERIC);
        WHEN 'backoff_jitter_max' THEN high := COALESCE(amount * 1000, (fresh -> 'plus_ms' ->> 1)::NUMERIC);
    END CASE;
    IF factor NOT BETWEEN 1 AND 1000 OR base * factor NOT BETWEEN 0 AND {longest} OR low NOT BETWEEN 0 AND {longest}
        OR high NOT BETWEEN 0 AND {longest}
    THEN
        RAISE numeric_value_out_of_range;
    END IF;
    RETURN jsonb_build_object(
        'kind', 'exponential', 'base_ms', round(base * factor)::BIGINT, 'factor', factor, 'jitter', backoff -> 'jitter',
        'cap_ms', CASE WHEN round(base * factor) = 0 THEN 0 ELSE GREATEST(cap, round(base * factor))::BIGINT END,
        'plus_ms', jsonb_build_array(round(low)::BIGINT, round(high)::BIGINT)
    );
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_configure()
RETURNS TRIGGER
LANGUAGE plpgsql VOLATILE
{pinned}
AS $$
DECLARE
    now BIGINT := {door}.rowq_now();
    changed TEXT;
    value TEXT;
    stored JSONB;
BEGIN
    IF TG_OP = 'DELETE' THEN
        changed := OLD.setting_name;
    ELSE
        changed := NEW.setting_name;
        value := NEW.setting_value;
    END IF;
    -- The lock that keeps two changes apart: what is changed is read after it.
    UPDATE {tables}.rowq_counters c SET value = c.value + 1 WHERE c.name = 'settings';
    SELECT convert_from(q.settings, 'UTF8')::JSONB INTO stored FROM {tables}.rowq_queues q WHERE q.name = '{queue}';
    BEGIN
        stored := {door}.rowq_with(COALESCE(stored, '{settings}'), changed, value::NUMERIC);
    EXCEPTION
        WHEN case_not_found OR data_exception THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('%s = %s is not possible', changed, value),
                HINT = 'The view queue_configuration lists the settings. They are numbers, and times up to 366 days.';
    END;
    INSERT INTO {tables}.rowq_queues AS q (name, settings, created_at) VALUES ('{queue}', convert_to(stored::TEXT, 'UTF8'), now)
    ON CONFLICT (name) DO UPDATE SET settings = excluded.settings;
    PERFORM {door}.rowq_note(
        {door}.rowq_resolve(stored), now, NULL, 'configured', NULL, session_user, json_build_object(changed, value)::TEXT
    );
    PERFORM {door}.rowq_tell('[{},true]');
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END
$$;

CREATE OR REPLACE TRIGGER rowq_configure
INSTEAD OF INSERT OR UPDATE OR DELETE ON {door}.queue_configuration
FOR EACH ROW EXECUTE FUNCTION {door}.rowq_configure();

-- By this a door is known: whose tables it leads to, and which SQL it was made of.
CREATE OR REPLACE FUNCTION {door}.made_by_rowq()
RETURNS TEXT
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN 'a door to {tables}, made of {fingerprint}';
END
$$;

-- A queue that is new, or of which nobody has said anything, gets the settings of this door; what somebody has set stays. A list of
-- delays says how many attempts there are.
UPDATE {tables}.rowq_counters SET value = value + 1 WHERE name = 'settings';

INSERT INTO {tables}.rowq_queues AS q (name, settings, created_at)
VALUES ('{queue}', '{settings}', {door}.rowq_now())
ON CONFLICT (name) DO UPDATE
SET settings = convert_to(
    (
        ('{settings}'::JSONB - CASE WHEN convert_from(q.settings, 'UTF8')::JSONB ? 'backoff' THEN 'max_attempts' ELSE '' END)
        || convert_from(q.settings, 'UTF8')::JSONB
    )::TEXT,
    'UTF8'
);
