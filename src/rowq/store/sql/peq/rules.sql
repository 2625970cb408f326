-- The rules of a message's life, once more: what model/lifecycle.py, model/retry.py and model/queue.py decide in Python, for those who come
-- in by SQL. The tests let both decide the same cases, so that neither can leave the other.
--
-- A policy, a standing, a verdict and a change are JSON, with the names that they have in Python. The functions read no table, except the
-- policy, and no clock; chance is an argument.

CREATE OR REPLACE FUNCTION {door}.rowq_resolve(stored JSONB)
RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    delays BIGINT := jsonb_array_length(stored -> 'backoff' -> 'delays_ms');
BEGIN
    IF delays > 0 AND NOT stored ? 'max_attempts' THEN
        stored := stored || jsonb_build_object('max_attempts', delays + 1);
    END IF;
    RETURN '{defaults}'::JSONB || stored;
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_policy()
RETURNS JSONB
LANGUAGE plpgsql STABLE
{pinned}
AS $$
DECLARE
    stored BYTEA;
BEGIN
    SELECT q.settings INTO stored FROM {tables}.rowq_queues q WHERE q.name = '{queue}';
    RETURN {door}.rowq_resolve(CASE WHEN FOUND THEN convert_from(stored, 'UTF8')::JSONB ELSE '{settings}' END);
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_expires_at(policy JSONB, now BIGINT, due BIGINT, ttl_ms BIGINT)
RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE policy ->> 'ttl_from' WHEN 'available' THEN due ELSE now END + NULLIF(COALESCE(ttl_ms, (policy ->> 'ttl_ms')::BIGINT), 0);
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_lease_until(now BIGINT, lease_ms BIGINT, deadline BIGINT)
RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN LEAST(now + lease_ms, CASE WHEN deadline > now THEN deadline END);
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_delay_ms(backoff JSONB, retry BIGINT, chance DOUBLE PRECISION)
RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    delays JSONB := backoff -> 'delays_ms';
    cap DOUBLE PRECISION := (backoff ->> 'cap_ms')::DOUBLE PRECISION;
    factor DOUBLE PRECISION := (backoff ->> 'factor')::DOUBLE PRECISION;
    low DOUBLE PRECISION := (backoff -> 'plus_ms' ->> 0)::DOUBLE PRECISION;
    high DOUBLE PRECISION := (backoff -> 'plus_ms' ->> 1)::DOUBLE PRECISION;
    whole DOUBLE PRECISION;
BEGIN
    CASE backoff ->> 'kind'
        WHEN 'list' THEN
            RETURN COALESCE((delays ->> (LEAST(retry, jsonb_array_length(delays)) - 1)::INTEGER)::BIGINT, 0);
        WHEN 'linear' THEN
            RETURN LEAST((backoff ->> 'step_ms')::NUMERIC * retry, cap::NUMERIC)::BIGINT;
        WHEN 'exponential' THEN
            -- A double has no room for much more: the cap is lower in any case.
            whole := CASE
                WHEN (retry - 1) * ln(factor) > 680 THEN cap
                ELSE LEAST((backoff ->> 'base_ms')::DOUBLE PRECISION * factor ^ (retry - 1), cap)
            END;
            RETURN round(whole * (1 - (backoff ->> 'jitter')::DOUBLE PRECISION * chance) + low + (high - low) * chance)::BIGINT;
    END CASE;
END
$$;

CREATE OR REPLACE FUNCTION {door}.rowq_decide(standing JSONB, verdict JSONB, policy JSONB, now BIGINT, chance DOUBLE PRECISION)
RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    kind TEXT := verdict ->> 'kind';
    error TEXT := COALESCE(verdict ->> 'error', standing ->> 'error');
    delay BIGINT := (verdict ->> 'delay')::BIGINT;
    counts BOOLEAN := COALESCE((verdict ->> 'counts')::BOOLEAN, TRUE);
    attempts BIGINT := (standing ->> 'attempts')::BIGINT;
    expires_at BIGINT := (standing ->> 'expires_at')::BIGINT;
    is_at_most_once BOOLEAN := policy ->> 'delivery' = 'at_most_once';
    is_past_deadline BOOLEAN := is_at_most_once AND COALESCE((standing ->> 'deadline')::BIGINT <= now, FALSE);
    most BIGINT := COALESCE(
        (standing ->> 'max_attempts')::BIGINT,
        NULLIF(jsonb_array_length(standing -> 'backoff' -> 'delays_ms'), 0) + 1,
        (policy ->> 'max_attempts')::BIGINT
    );
    used_up TEXT;
BEGIN
    IF kind = 'ack' THEN
        RETURN jsonb_build_object('kind', 'finished', 'outcome', 'acked', 'keep', policy -> 'keep');
    ELSIF kind = 'reject' THEN
        RETURN jsonb_build_object('kind', 'dead', 'reason', 'rejected', 'error', error, 'due', now);
    ELSIF kind = 'reschedule' THEN
        RETURN jsonb_build_object('kind', 'waiting', 'due', now + delay, 'attempts', 0, 'expires_at', expires_at + delay, 'error', error);
    ELSIF kind = 'expire' AND NOT is_past_deadline THEN
        RETURN CASE
            WHEN expires_at IS NULL OR expires_at > now THEN NULL
            WHEN policy ->> 'on_expire' = 'dead'
            THEN jsonb_build_object('kind', 'dead', 'reason', 'message_expired', 'error', error, 'due', now)
            ELSE jsonb_build_object(
                'kind', 'finished', 'outcome', 'expired', 'error', error,
                'keep', CASE policy ->> 'on_expire' WHEN 'expired' THEN 'body' ELSE 'none' END
            )
        END;
    END IF;
    IF kind = 'lease_expired' THEN
        error := COALESCE(NULLIF(error, ''), 'the lease expired');
        counts := (policy ->> 'count_lease_expiry')::BOOLEAN;
        delay := CASE policy ->> 'lease_expiry_backoff' WHEN 'none' THEN 0 END;
    END IF;
    IF is_past_deadline THEN
        used_up := 'deadline_exceeded';
    ELSIF (kind = 'lease_expired' AND is_at_most_once) OR (counts AND most > 0 AND most <= attempts) THEN
        used_up := 'max_attempts_reached';
    END IF;
    IF used_up IS NULL THEN
        attempts := CASE WHEN counts THEN attempts ELSE attempts - 1 END;
        IF delay IS NULL AND counts THEN
            delay := {door}.rowq_delay_ms(COALESCE(standing -> 'backoff', policy -> 'backoff'), attempts, chance);
        END IF;
        RETURN jsonb_build_object(
            'kind', 'waiting', 'due', now + COALESCE(delay, 0), 'attempts', attempts, 'expires_at', expires_at, 'error', error
        );
    ELSIF policy ->> 'on_exhausted' = 'dead' THEN
        RETURN jsonb_build_object('kind', 'dead', 'reason', used_up, 'error', error, 'due', now);
    ELSE
        RETURN jsonb_build_object(
            'kind', 'finished', 'outcome', 'failed', 'error', COALESCE(NULLIF(error, ''), used_up),
            'keep', CASE policy ->> 'on_exhausted' WHEN 'fail' THEN 'body' ELSE 'none' END
        );
    END IF;
END
$$;
