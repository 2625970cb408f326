-- Version 6: people who sign in to the pages.

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE rowq_sessions (
    digest BYTEA PRIMARY KEY,
    key_name TEXT COLLATE "C" NOT NULL,
    key_digest BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
