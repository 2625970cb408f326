-- Version 7: an id that a caller brought is unique in its queue, where it was unique in the database.

CREATE TABLE rowq_own_ids_of_6 AS
SELECT id, seq, queue, gone_at
FROM rowq_own_ids;

DROP TABLE rowq_own_ids;

-- Ids that callers brought, each unique in its queue. gone_at: when the message left; the id stays taken while its audit is known.
CREATE TABLE rowq_own_ids (
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    queue TEXT NOT NULL,
    gone_at INTEGER,
    PRIMARY KEY (id, queue)
) WITHOUT ROWID;

INSERT INTO rowq_own_ids (id, seq, queue, gone_at)
SELECT id, seq, queue, gone_at
FROM rowq_own_ids_of_6;

DROP TABLE rowq_own_ids_of_6;

CREATE INDEX rowq_own_ids_gone ON rowq_own_ids (queue, gone_at);
