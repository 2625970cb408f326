-- The tables of rowq on MariaDB and MySQL, version 6, in the database that the URL names.
--
-- The same tables as everywhere: a state is a table, and a transition moves a narrow row between them (see schema.sqlite.sql).
-- {storage} is InnoDB with a collation that compares by byte and counts trailing spaces, under the name that the server has for it;
-- names of queues are ASCII without spaces. An index takes 3,072 bytes a row, which a key of 255 characters fits into.
--
-- Every statement here commits by itself and is repeated when a migration was cut off, hence IF NOT EXISTS.

CREATE TABLE IF NOT EXISTS rowq_migrations (
    version BIGINT PRIMARY KEY,
    applied_at BIGINT NOT NULL
) {storage};

CREATE TABLE IF NOT EXISTS rowq_counters (
    name VARCHAR(64) PRIMARY KEY,
    value BIGINT NOT NULL
) {storage};

-- identity: a random number that tells this queue from any other, whatever address it is reached by.
INSERT INTO rowq_counters (name, value)
VALUES ('seq', 0), ('settings', 0), ('identity', CAST(CONV(LEFT(SHA1(CONCAT(UUID(), RAND())), 15), 16, 10) AS SIGNED))
ON DUPLICATE KEY UPDATE value = rowq_counters.value;

CREATE TABLE IF NOT EXISTS rowq_queues (
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    settings LONGBLOB NOT NULL,
    created_at BIGINT NOT NULL
) {storage};

CREATE TABLE IF NOT EXISTS rowq_messages (
    seq BIGINT PRIMARY KEY,
    sent_at BIGINT NOT NULL,
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
    marks BIGINT NOT NULL
) {storage};

CREATE TABLE IF NOT EXISTS rowq_ready (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ranking BIGINT NOT NULL,
    position BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error LONGTEXT,
    PRIMARY KEY (queue, ranking, position, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_moved (
    seq BIGINT PRIMARY KEY,
    position BIGINT NOT NULL
) {storage};

CREATE TABLE IF NOT EXISTS rowq_scheduled (
    seq BIGINT PRIMARY KEY,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error LONGTEXT,
    KEY rowq_scheduled_due (queue, due, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_leased (
    seq BIGINT PRIMARY KEY,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    lease_until BIGINT NOT NULL,
    token BIGINT NOT NULL,
    consumer LONGTEXT,
    leased_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error LONGTEXT,
    marks BIGINT NOT NULL,
    reason VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    died_at BIGINT,
    redeliveries BIGINT,
    KEY rowq_leased_until (queue, lease_until, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_blocked (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    group_key VARCHAR(255) NOT NULL,
    seq BIGINT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    expires_at BIGINT,
    error LONGTEXT,
    PRIMARY KEY (queue, group_key, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_dead (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT NOT NULL,
    due BIGINT,
    attempts BIGINT NOT NULL,
    redeliveries BIGINT NOT NULL,
    reason VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    error LONGTEXT,
    died_at BIGINT NOT NULL,
    PRIMARY KEY (queue, seq),
    KEY rowq_dead_due (queue, due, seq),
    KEY rowq_dead_age (queue, died_at, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_history (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    seq BIGINT NOT NULL,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    outcome VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sent_at BIGINT NOT NULL,
    leased_at BIGINT,
    finished_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    consumer LONGTEXT,
    error LONGTEXT,
    message_key VARCHAR(255),
    group_key VARCHAR(255),
    priority BIGINT NOT NULL,
    own_id VARCHAR(255),
    UNIQUE KEY rowq_history_seq (seq),
    KEY rowq_history_age (queue, finished_at, id)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_audit (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    at BIGINT NOT NULL,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT,
    event VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt BIGINT,
    actor LONGTEXT,
    detail LONGTEXT,
    KEY rowq_audit_seq (seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_waiting_keys (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    message_key VARCHAR(255) NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (queue, message_key)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_group_heads (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    group_key VARCHAR(255) NOT NULL,
    head BIGINT NOT NULL,
    PRIMARY KEY (queue, group_key)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_expiring (
    seq BIGINT PRIMARY KEY,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ends_at BIGINT NOT NULL,
    KEY rowq_expiring_ends (ends_at, seq)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_own_ids (
    id VARCHAR(255) NOT NULL,
    seq BIGINT NOT NULL,
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    gone_at BIGINT,
    PRIMARY KEY (id, queue),
    KEY rowq_own_ids_gone (queue, gone_at)
) {storage};

-- A key may be longer than an index takes. Its SHA-256 is what must not be there twice, and its first 3,000 bytes are what it is
-- found and ordered by.
CREATE TABLE IF NOT EXISTS rowq_kv (
    entry_hash BINARY(32) PRIMARY KEY,
    entry_head VARBINARY(3000) NOT NULL,
    entry_key LONGTEXT NOT NULL,
    format BIGINT NOT NULL,
    value LONGBLOB NOT NULL,
    written_at BIGINT NOT NULL,
    message_id VARCHAR(255) NOT NULL,
    KEY rowq_kv_order (entry_head, entry_hash)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_buckets (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    tokens DOUBLE NOT NULL,
    filled_at BIGINT NOT NULL
) {storage};

-- An id is a queue, the name of a key to the server, and 255 characters of a client's own: 389 at most.
CREATE TABLE IF NOT EXISTS rowq_requests (
    id VARCHAR(512) PRIMARY KEY,
    at BIGINT NOT NULL,
    fingerprint VARBINARY(64) NOT NULL,
    answer LONGBLOB NOT NULL,
    KEY rowq_requests_age (at)
) {storage};

CREATE TABLE IF NOT EXISTS rowq_api_keys (
    name VARCHAR(64) PRIMARY KEY,
    digest VARBINARY(64) NOT NULL,
    scopes LONGTEXT NOT NULL,
    queues LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL
) {storage};

-- What one process does for all of them, for as long as its turn lasts.
CREATE TABLE IF NOT EXISTS rowq_duties (
    name VARCHAR(64) PRIMARY KEY,
    holder VARCHAR(64) NOT NULL,
    held_until BIGINT NOT NULL
) {storage};

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: a reader that still asks for a batch below stops.
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

-- Consumers of a queue that know of each other. Who was heard of lately is alive, by the database's clock; its place among the living,
-- in the order of their birth, says which share of the messages is its own.
CREATE TABLE IF NOT EXISTS rowq_consumers (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    born_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL,
    PRIMARY KEY (queue, id)
) {storage};

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE IF NOT EXISTS rowq_sessions (
    digest VARBINARY(64) PRIMARY KEY,
    key_name VARCHAR(64) NOT NULL,
    key_digest VARBINARY(64) NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) {storage};
