-- Version 6: people who sign in to the pages.

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE rowq_sessions (
    digest BLOB PRIMARY KEY,
    key_name TEXT NOT NULL,
    key_digest BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
