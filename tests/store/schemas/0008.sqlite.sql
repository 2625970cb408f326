-- The tables of rowq on SQLite, version 6.
--
-- A state is a table. A message's body is written once in rowq_messages; where the message *is* is a narrow row in exactly one
-- of rowq_ready, rowq_scheduled, rowq_leased, rowq_blocked, rowq_dead and rowq_history, and a transition is a move between them
-- in one transaction. Nothing is indexed by a status, so what was processed long ago, or is delayed, costs a receive nothing.
--
-- Names carry the prefix rowq_ because the tables may share a file with those of an application (see broker.within).
-- Every time is milliseconds since 1970, UTC. A seq is drawn from rowq_counters and never used twice.

CREATE TABLE rowq_migrations (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
);

CREATE TABLE rowq_counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- identity: a random number that tells this queue from any other, whatever path it is reached by.
INSERT INTO rowq_counters (name, value) VALUES ('seq', 0), ('settings', 0), ('identity', ABS(RANDOM() % 4611686018427387904));

CREATE TABLE rowq_queues (
    name TEXT PRIMARY KEY,
    settings BLOB NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- The body and all that was said at send. Not WITHOUT ROWID: bodies of 1 KiB would spill into overflow pages.
CREATE TABLE rowq_messages (
    seq INTEGER PRIMARY KEY,
    sent_at INTEGER NOT NULL,
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
    marks INTEGER NOT NULL
);

-- ranking is the negated priority; position is the seq, or a new number on return where the queue says order: ready.
CREATE TABLE rowq_ready (
    queue TEXT NOT NULL,
    ranking INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER,
    error TEXT,
    PRIMARY KEY (queue, ranking, position, seq)
) WITHOUT ROWID;

-- Where in rowq_ready a message stands whose position is not its seq: it came back to a queue with order: ready.
CREATE TABLE rowq_moved (
    seq INTEGER PRIMARY KEY,
    position INTEGER NOT NULL
);

CREATE TABLE rowq_scheduled (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER,
    error TEXT
);

CREATE INDEX rowq_scheduled_due ON rowq_scheduled (queue, due, seq);

-- reason, died_at and redeliveries are set while a dead letter is leased.
CREATE TABLE rowq_leased (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    token INTEGER NOT NULL,
    consumer TEXT,
    leased_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER,
    error TEXT,
    marks INTEGER NOT NULL,
    reason TEXT,
    died_at INTEGER,
    redeliveries INTEGER
);

CREATE INDEX rowq_leased_until ON rowq_leased (queue, lease_until, seq);

CREATE TABLE rowq_blocked (
    queue TEXT NOT NULL,
    group_key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    expires_at INTEGER,
    error TEXT,
    PRIMARY KEY (queue, group_key, seq)
) WITHOUT ROWID;

-- due: when it may be received as a dead letter; NULL means never again.
CREATE TABLE rowq_dead (
    queue TEXT NOT NULL,
    seq INTEGER NOT NULL,
    due INTEGER,
    attempts INTEGER NOT NULL,
    redeliveries INTEGER NOT NULL,
    reason TEXT NOT NULL,
    error TEXT,
    died_at INTEGER NOT NULL,
    PRIMARY KEY (queue, seq)
) WITHOUT ROWID;

CREATE INDEX rowq_dead_due ON rowq_dead (queue, due, seq);
CREATE INDEX rowq_dead_age ON rowq_dead (queue, died_at, seq);

-- Finished messages. The body, where it is kept, stays in rowq_messages. Append only; of the newest row retention leaves a
-- hollow shell (queue ''), so that an id is never used twice.
CREATE TABLE rowq_history (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    outcome TEXT NOT NULL,
    sent_at INTEGER NOT NULL,
    leased_at INTEGER,
    finished_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    consumer TEXT,
    error TEXT,
    message_key TEXT,
    group_key TEXT,
    priority INTEGER NOT NULL,
    own_id TEXT
);

CREATE INDEX rowq_history_age ON rowq_history (queue, finished_at, id);

-- One line an event. Append only, as rowq_history.
--
-- A row is one event of one message, or a run: the same event of up to 64 messages, written by one statement (decision 43). Then seqs has
-- the JSON array of their seqs, all of one block of 64, and seq is -1 minus the number of the block, so that one index finds either.
CREATE TABLE rowq_audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    seq INTEGER,
    event TEXT NOT NULL,
    attempt INTEGER,
    actor TEXT,
    detail TEXT,
    seqs TEXT
);

CREATE INDEX rowq_audit_seq ON rowq_audit (seq);

-- The same a line at a time. run and lead are the columns of the index that a reader begins with; the ids of a run end with that of its row.
CREATE VIEW rowq_audit_lines AS
SELECT
    a.id AS run, a.seq AS lead,
    a.id - COALESCE(JSON_ARRAY_LENGTH(a.seqs), 1) + json_each.key + 1 AS id,
    a.at, a.queue, json_each.value AS seq, a.event, a.attempt, a.actor, a.detail
FROM rowq_audit a
CROSS JOIN json_each(COALESCE(a.seqs, JSON_ARRAY(a.seq)));

-- The message that waits under a key. A row may name a message that has since been leased: receive never touches this table.
CREATE TABLE rowq_waiting_keys (
    queue TEXT NOT NULL,
    message_key TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (queue, message_key)
) WITHOUT ROWID;

-- The one message of a group that may be ready, scheduled or leased; the others are blocked.
CREATE TABLE rowq_group_heads (
    queue TEXT NOT NULL,
    group_key TEXT NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (queue, group_key)
) WITHOUT ROWID;

-- When maintenance must look at a message at the latest: the earlier of its TTL and its deadline.
CREATE TABLE rowq_expiring (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    ends_at INTEGER NOT NULL
);

CREATE INDEX rowq_expiring_ends ON rowq_expiring (ends_at, seq);

-- Ids that callers brought, each unique in its queue. gone_at: when the message left; the id stays taken while its audit is known.
CREATE TABLE rowq_own_ids (
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    queue TEXT NOT NULL,
    gone_at INTEGER,
    PRIMARY KEY (id, queue)
) WITHOUT ROWID;

CREATE INDEX rowq_own_ids_gone ON rowq_own_ids (queue, gone_at);

-- Payloads of undelivered messages under the keys that the sender chose (JSON lists of parts).
CREATE TABLE rowq_kv (
    entry_key TEXT PRIMARY KEY,
    format INTEGER NOT NULL,
    value BLOB NOT NULL,
    written_at INTEGER NOT NULL,
    message_id TEXT NOT NULL
) WITHOUT ROWID;

-- The token bucket of a queue with a throughput_limit.
CREATE TABLE rowq_buckets (
    queue TEXT PRIMARY KEY,
    tokens REAL NOT NULL,
    filled_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Sends that may be retried: queue/request → the answer that was given, so that a second try gets it again. Kept for an hour.
CREATE TABLE rowq_requests (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    answer BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX rowq_requests_age ON rowq_requests (at);

-- Who may ask the server for what. Of a secret only the SHA-256 is kept; scopes and queues are JSON lists.
CREATE TABLE rowq_api_keys (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    scopes TEXT NOT NULL,
    queues TEXT NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What one process does for all of them, for as long as its turn lasts.
CREATE TABLE rowq_duties (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL
) WITHOUT ROWID;

-- Streams: consumers that take messages in numbered batches and settle whole batches. What is in a batch is written here before its
-- number is given out, and never changes; numbers are never used twice. epoch tells who holds the stream now, floor is where a
-- revoke has ended everything before it: a reader that still asks for a batch below stops.
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

-- Consumers of a queue that know of each other. Who was heard of lately is alive, by the database's clock; its place among the living,
-- in the order of their birth, says which share of the messages is its own.
CREATE TABLE rowq_consumers (
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    born_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE rowq_sessions (
    digest BLOB PRIMARY KEY,
    key_name TEXT NOT NULL,
    key_digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
