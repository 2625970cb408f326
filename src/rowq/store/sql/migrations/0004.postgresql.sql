-- Version 4: streams, messages that are published in one go, and the segments of an archive.

ALTER TABLE rowq_history ALTER COLUMN id DROP IDENTITY;
CREATE SEQUENCE rowq_history_ids;
SELECT setval('rowq_history_ids', COALESCE(MAX(id), 0) + 1, FALSE) FROM rowq_history;
ALTER TABLE rowq_history ALTER COLUMN id SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rowq_history_ids') END;

ALTER TABLE rowq_audit ALTER COLUMN id DROP IDENTITY;
CREATE SEQUENCE rowq_audit_ids;
SELECT setval('rowq_audit_ids', COALESCE(MAX(id), 0) + 1, FALSE) FROM rowq_audit;
ALTER TABLE rowq_audit ALTER COLUMN id SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('rowq_audit_ids') END;

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: whoever still asks for a batch below stops.
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
-- of the server empties it, and whoever publishes counts.
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
