-- Version 5: consumers that know of each other.

-- Consumers of a queue that know of each other. Who was heard of lately is alive, by the database's clock; its place among the living,
-- in the order of their birth, says which share of the messages is its own.
CREATE TABLE IF NOT EXISTS rowq_consumers (
    queue VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    born_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL,
    PRIMARY KEY (queue, id)
) {storage};
