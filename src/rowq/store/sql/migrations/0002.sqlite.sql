-- Version 2: sends that may be retried, and keys to the server.

CREATE TABLE rowq_requests (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    answer BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX rowq_requests_age ON rowq_requests (at);

CREATE TABLE rowq_api_keys (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    scopes TEXT NOT NULL,
    queues TEXT NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
