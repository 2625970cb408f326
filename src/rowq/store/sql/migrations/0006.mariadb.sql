-- Version 6: people who sign in to the pages.

-- Who has signed in to the pages with a key. Of the cookie only the digest is here, as of a key's secret; the digest of the key tells
-- whether it is still the key of that name.
CREATE TABLE IF NOT EXISTS rowq_sessions (
    digest VARBINARY(64) PRIMARY KEY,
    key_name VARCHAR(64) NOT NULL,
    key_digest VARBINARY(64) NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
) {storage};
