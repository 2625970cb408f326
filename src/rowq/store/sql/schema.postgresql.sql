-- The tables of rowq on PostgreSQL, version 8, inside the schema that the URL names (rowq unless it says another).
--
-- The same tables as everywhere: a state is a table, and a transition moves a narrow row between them (see schema.sqlite.sql).
-- Names and keys compare by byte, hence COLLATE "C". Seqs come from a sequence: a counter row would be locked by every sender until
-- its commit, and while a transaction holds a snapshot open every one of its old versions would be walked again and again.
--
-- No index of times ends with the seq, as elsewhere: PostgreSQL would take it for one that finds a seq, and by the statistics of an
-- almost empty table walk all of it instead of looking into the primary key.
--
-- Maintenance vacuums what the hot tables leave behind every few seconds; the settings here are for a database without maintenance.

CREATE TABLE rowq_migrations (
    version BIGINT PRIMARY KEY,
    applied_at BIGINT NOT NULL
);

CREATE SEQUENCE rowq_seq;

CREATE TABLE rowq_counters (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);

-- identity: a random number that tells this queue from any other, whatever address it is reached by.
INSERT INTO rowq_counters (name, value)
VALUES ('settings', 0), ('identity', FLOOR(RANDOM() * 4611686018427387904)::BIGINT);

CREATE TABLE rowq_queues (
    name TEXT COLLATE "C" PRIMARY KEY,
    settings BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE rowq_messages (
    seq BIGINT PRIMARY KEY,
    sent_at BIGINT NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    format BIGINT NOT NULL,
    payload BYTEA NOT NULL,
    headers BYTEA,
    message_key TEXT COLLATE "C",
    group_key TEXT COLLATE "C",
    priority BIGINT NOT NULL,
    delay_ms BIGINT NOT NULL,
    ttl_ms BIGINT,
    deadline_ms BIGINT,
    max_attempts BIGINT,
    backoff BYTEA,
    kv_keys BYTEA,
    own_id TEXT COLLATE "C",
    marks BIGINT NOT NULL
);

CREATE TABLE rowq_ready (
    queue TEXT COLLATE "C" NOT NULL,
    ranking BIGINT NOT NULL,
    position BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error TEXT,
    PRIMARY KEY (queue, ranking, position, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE rowq_moved (
    seq BIGINT PRIMARY KEY,
    position BIGINT NOT NULL
);

CREATE TABLE rowq_scheduled (
    seq BIGINT PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error TEXT
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX rowq_scheduled_due ON rowq_scheduled (queue, due);

CREATE TABLE rowq_leased (
    seq BIGINT PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL,
    lease_until BIGINT NOT NULL,
    token BIGINT NOT NULL,
    consumer TEXT,
    leased_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error TEXT,
    marks BIGINT NOT NULL,
    reason TEXT,
    died_at BIGINT,
    redeliveries BIGINT
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX rowq_leased_until ON rowq_leased (queue, lease_until);

CREATE TABLE rowq_blocked (
    queue TEXT COLLATE "C" NOT NULL,
    group_key TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error TEXT,
    PRIMARY KEY (queue, group_key, seq)
);

CREATE TABLE rowq_dead (
    queue TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    due BIGINT,
    attempts BIGINT NOT NULL,
    redeliveries BIGINT NOT NULL,
    reason TEXT NOT NULL,
    error TEXT,
    died_at BIGINT NOT NULL,
    PRIMARY KEY (queue, seq)
);

CREATE INDEX rowq_dead_due ON rowq_dead (queue, due);
CREATE INDEX rowq_dead_age ON rowq_dead (queue, died_at);

-- A transaction that draws the number of a line holds a lock of the table until it ends. A reader that knows the last number drawn, and
-- then sees that every transaction that held the lock has ended, knows that no line below that number will appear (watermark.postgresql.sql).
CREATE SEQUENCE rowq_history_ids;

CREATE TABLE rowq_history (
    id BIGINT PRIMARY KEY DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rowq_history_ids') END,
    seq BIGINT NOT NULL UNIQUE,
    queue TEXT COLLATE "C" NOT NULL,
    outcome TEXT NOT NULL,
    sent_at BIGINT NOT NULL,
    leased_at BIGINT,
    finished_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    consumer TEXT,
    error TEXT,
    message_key TEXT COLLATE "C",
    group_key TEXT COLLATE "C",
    priority BIGINT NOT NULL,
    own_id TEXT COLLATE "C"
);

CREATE INDEX rowq_history_age ON rowq_history (queue, finished_at, id);

CREATE SEQUENCE rowq_audit_ids;

-- A row is one event of one message, or a run: the same event of up to 64 messages, written by one statement (decision 43). Then seqs has
-- their seqs, all of one block of 64, and seq is -1 minus the number of the block, so that one index finds either.
CREATE TABLE rowq_audit (
    id BIGINT PRIMARY KEY DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rowq_audit_ids') END,
    at BIGINT NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    seq BIGINT,
    event TEXT COLLATE "C" NOT NULL,
    attempt BIGINT,
    actor TEXT,
    detail TEXT,
    seqs BIGINT[]
);

CREATE INDEX rowq_audit_seq ON rowq_audit (seq);

-- The same a line at a time. run and lead are the columns of the index that a reader begins with; the ids of a run end with that of its row.
CREATE VIEW rowq_audit_lines AS
SELECT
    a.id AS run, a.seq AS lead,
    a.id - COALESCE(CARDINALITY(a.seqs), 1) + line.place AS id,
    a.at, a.queue, line.seq, a.event, a.attempt, a.actor, a.detail
FROM rowq_audit a
CROSS JOIN LATERAL UNNEST(COALESCE(a.seqs, ARRAY[a.seq])) WITH ORDINALITY AS line (seq, place);

-- Draws consecutive numbers, and gives the last. If another transaction draws in between, the numbers are discarded, and the next attempt
-- holds a lock, so that those who have failed do not disturb each other again. The lock is a block's own, and the error that ends the block
-- releases it; numbers stay drawn. The transaction has its id before the first number, as the default of a line has. Eight numbers at a
-- time: a step of PL/pgSQL costs a quarter of what a number does.
CREATE FUNCTION rowq_draw_run(ids REGCLASS, count BIGINT)
RETURNS BIGINT
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    wanted BIGINT := GREATEST(count, 1);
    first BIGINT;
    last BIGINT;
BEGIN
    PERFORM pg_current_xact_id();
    first := nextval(ids);
    last := first;
    FOR eight IN 1..(wanted - 1) / 8 LOOP
        last := GREATEST(
            nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids), nextval(ids)
        );
    END LOOP;
    FOR one IN 1..(wanted - 1) % 8 LOOP
        last := nextval(ids);
    END LOOP;
    IF last - first + 1 = wanted THEN
        RETURN last;
    END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock((CAST(1919907697 AS BIGINT) << 32) | CAST(CAST(ids AS OID) AS BIGINT));
        LOOP
            first := nextval(ids);
            last := first;
            FOR one IN 2..wanted LOOP
                last := nextval(ids);
            END LOOP;
            EXIT WHEN last - first + 1 = wanted;
        END LOOP;
        RAISE SQLSTATE 'RQ001';
    EXCEPTION WHEN SQLSTATE 'RQ001' THEN
        RETURN last;
    END;
END
$$;

CREATE TABLE rowq_waiting_keys (
    queue TEXT COLLATE "C" NOT NULL,
    message_key TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (queue, message_key)
);

CREATE TABLE rowq_group_heads (
    queue TEXT COLLATE "C" NOT NULL,
    group_key TEXT COLLATE "C" NOT NULL,
    head BIGINT NOT NULL,
    PRIMARY KEY (queue, group_key)
);

CREATE TABLE rowq_expiring (
    seq BIGINT PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL,
    ends_at BIGINT NOT NULL
);

CREATE INDEX rowq_expiring_ends ON rowq_expiring (ends_at);

CREATE TABLE rowq_own_ids (
    id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    gone_at BIGINT,
    PRIMARY KEY (id, queue)
);

CREATE INDEX rowq_own_ids_gone ON rowq_own_ids (queue, gone_at);

CREATE TABLE rowq_kv (
    entry_key TEXT COLLATE "C" PRIMARY KEY,
    format BIGINT NOT NULL,
    value BYTEA NOT NULL,
    written_at BIGINT NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL
);

CREATE TABLE rowq_buckets (
    queue TEXT COLLATE "C" PRIMARY KEY,
    tokens DOUBLE PRECISION NOT NULL,
    filled_at BIGINT NOT NULL
);

CREATE TABLE rowq_requests (
    id TEXT COLLATE "C" PRIMARY KEY,
    at BIGINT NOT NULL,
    fingerprint BYTEA NOT NULL,
    answer BYTEA NOT NULL
);

CREATE INDEX rowq_requests_age ON rowq_requests (at);

CREATE TABLE rowq_api_keys (
    name TEXT COLLATE "C" PRIMARY KEY,
    digest BYTEA NOT NULL,
    scopes TEXT NOT NULL,
    queues TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- What one process does for all of them, for as long as its turn lasts.
CREATE TABLE rowq_duties (
    name TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL
);

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: a reader that still asks for a batch below stops.
CREATE TABLE rowq_streams (
    name TEXT COLLATE "C" PRIMARY KEY,
    queues TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    next_batch BIGINT NOT NULL,
    acked_batch BIGINT NOT NULL,
    floor BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL
);

CREATE TABLE rowq_stream_batches (
    stream TEXT COLLATE "C" NOT NULL,
    batch BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    leased_at BIGINT NOT NULL,
    acked_at BIGINT,
    PRIMARY KEY (stream, batch)
);

-- The messages of batches that are not settled yet: each is in rowq_leased too, with a lease that has no end. One that was
-- quarantined keeps its row, so that the others keep their places.
CREATE TABLE rowq_streamed (
    stream TEXT COLLATE "C" NOT NULL,
    batch BIGINT NOT NULL,
    place BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    token BIGINT NOT NULL,
    quarantined_at BIGINT,
    PRIMARY KEY (stream, batch, place)
);

CREATE INDEX rowq_streamed_seq ON rowq_streamed (seq);

-- Messages that a writer has put down and not published: stage is the name of one attempt of one task, and never used twice. A crash
-- of the server empties it, and the publishing transaction counts.
CREATE UNLOGGED TABLE rowq_staged (
    stage TEXT COLLATE "C" NOT NULL,
    place BIGINT NOT NULL,
    staged_at BIGINT NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    format BIGINT NOT NULL,
    payload BYTEA NOT NULL,
    headers BYTEA,
    message_key TEXT COLLATE "C",
    group_key TEXT COLLATE "C",
    priority BIGINT NOT NULL,
    delay_ms BIGINT NOT NULL,
    ttl_ms BIGINT,
    deadline_ms BIGINT,
    max_attempts BIGINT,
    backoff BYTEA,
    kv_keys BYTEA,
    own_id TEXT COLLATE "C",
    marks BIGINT NOT NULL,
    PRIMARY KEY (stage, place)
);

CREATE INDEX rowq_staged_age ON rowq_staged (staged_at);

-- What a writer has published already: one that says it a second time is told so, and writes nothing.
CREATE TABLE rowq_publications (
    writer TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    PRIMARY KEY (writer, version)
);

-- Which rows of history and audit are in which segment of an archive: the range is fixed before the first of them is written there.
CREATE TABLE rowq_segments (
    lake TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    segment BIGINT NOT NULL,
    first_id BIGINT NOT NULL,
    last_id BIGINT NOT NULL,
    line_count BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    planned_at BIGINT NOT NULL,
    committed_at BIGINT,
    PRIMARY KEY (lake, kind, segment)
);

-- Consumers of a queue that know of each other. Who was heard of lately is alive, by the database's clock; its place among the living,
-- in the order of their birth, says which share of the messages is its own.
CREATE TABLE rowq_consumers (
    queue TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    born_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL,
    PRIMARY KEY (queue, id)
);

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE rowq_sessions (
    digest BYTEA PRIMARY KEY,
    key_name TEXT COLLATE "C" NOT NULL,
    key_digest BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
