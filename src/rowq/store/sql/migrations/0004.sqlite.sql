-- Version 4: streams, messages that are published in one go, and the segments of an archive.

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: whoever still asks for a batch below stops.
CREATE TABLE rowq_streams (
    name TEXT PRIMARY KEY,
    queues TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    next_batch INTEGER NOT NULL,
    acked_batch INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE rowq_stream_batches (
    stream TEXT NOT NULL,
    batch INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    leased_at INTEGER NOT NULL,
    acked_at INTEGER,
    PRIMARY KEY (stream, batch)
) WITHOUT ROWID;

-- The messages of batches that are not settled yet: each is in rowq_leased too, with a lease that has no end. One that was
-- quarantined keeps its row, so that the others keep their places.
CREATE TABLE rowq_streamed (
    stream TEXT NOT NULL,
    batch INTEGER NOT NULL,
    place INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    token INTEGER NOT NULL,
    quarantined_at INTEGER,
    PRIMARY KEY (stream, batch, place)
) WITHOUT ROWID;

CREATE INDEX rowq_streamed_seq ON rowq_streamed (seq);

-- Messages that a writer has put down and not published: stage is the name of one attempt of one task, and never used twice.
CREATE TABLE rowq_staged (
    stage TEXT NOT NULL,
    place INTEGER NOT NULL,
    staged_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    format INTEGER NOT NULL,
    payload BLOB NOT NULL,
    headers BLOB,
    message_key TEXT,
    group_key TEXT,
    priority INTEGER NOT NULL,
    delay_ms INTEGER NOT NULL,
    ttl_ms INTEGER,
    deadline_ms INTEGER,
    max_attempts INTEGER,
    backoff BLOB,
    kv_keys BLOB,
    own_id TEXT,
    marks INTEGER NOT NULL,
    PRIMARY KEY (stage, place)
) WITHOUT ROWID;

CREATE INDEX rowq_staged_age ON rowq_staged (staged_at);

-- What a writer has published already: one that says it a second time is told so, and writes nothing.
CREATE TABLE rowq_publications (
    writer TEXT NOT NULL,
    version INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    PRIMARY KEY (writer, version)
) WITHOUT ROWID;

-- Which rows of history and audit are in which segment of an archive: the range is fixed before the first of them is written there.
CREATE TABLE rowq_segments (
    lake TEXT NOT NULL,
    kind TEXT NOT NULL,
    segment INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL,
    line_count INTEGER NOT NULL,
    state TEXT NOT NULL,
    planned_at INTEGER NOT NULL,
    committed_at INTEGER,
    PRIMARY KEY (lake, kind, segment)
) WITHOUT ROWID;
