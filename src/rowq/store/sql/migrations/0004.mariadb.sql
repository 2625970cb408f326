-- Version 4: streams, messages that are published in one go, and the segments of an archive.

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: whoever still asks for a batch below stops.
CREATE TABLE IF NOT EXISTS rowq_streams (
    name VARCHAR(255) PRIMARY KEY,
    queues LONGTEXT NOT NULL,
    epoch BIGINT NOT NULL,
    next_batch BIGINT NOT NULL,
    acked_batch BIGINT NOT NULL,
    floor BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL
) {storage};

CREATE TABLE IF NOT EXISTS rowq_stream_batches (
    stream VARCHAR(255) NOT NULL,
    batch BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    leased_at BIGINT NOT NULL,
    acked_at BIGINT,
    PRIMARY KEY (stream, batch)
) {storage};

-- The messages of batches that are not settled yet: each is in rowq_leased too, with a lease that has no end. One that was
-- quarantined keeps its row, so that the others keep their places.
CREATE TABLE IF NOT EXISTS rowq_streamed (
    stream VARCHAR(255) NOT NULL,
    batch BIGINT NOT NULL,
    place BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    token BIGINT NOT NULL,
    quarantined_at BIGINT,
    PRIMARY KEY (stream, batch, place),
    KEY rowq_streamed_seq (seq)
) {storage};

-- Messages that a writer has put down and not published: stage is the name of one attempt of one task, and never used twice.
CREATE TABLE IF NOT EXISTS rowq_staged (
    stage VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    place BIGINT NOT NULL,
    staged_at BIGINT NOT NULL,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    format BIGINT NOT NULL,
    payload LONGBLOB NOT NULL,
    headers LONGBLOB,
    message_key VARCHAR(255),
    group_key VARCHAR(255),
    priority BIGINT NOT NULL,
    delay_ms BIGINT NOT NULL,
    ttl_ms BIGINT,
    deadline_ms BIGINT,
    max_attempts BIGINT,
    backoff LONGBLOB,
    kv_keys LONGBLOB,
    own_id VARCHAR(255),
    marks BIGINT NOT NULL,
    PRIMARY KEY (stage, place),
    KEY rowq_staged_age (staged_at)
) {storage};

-- What a writer has published already: one that says it a second time is told so, and writes nothing.
CREATE TABLE IF NOT EXISTS rowq_publications (
    writer VARCHAR(255) NOT NULL,
    version BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    PRIMARY KEY (writer, version)
) {storage};

-- Which rows of history and audit are in which segment of an archive: the range is fixed before the first of them is written there.
CREATE TABLE IF NOT EXISTS rowq_segments (
    lake VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    segment BIGINT NOT NULL,
    first_id BIGINT NOT NULL,
    last_id BIGINT NOT NULL,
    line_count BIGINT NOT NULL,
    state VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    planned_at BIGINT NOT NULL,
    committed_at BIGINT,
    PRIMARY KEY (lake, kind, segment)
) {storage};
