-- Version 5: consumers that know of each other.

-- Consumers of a queue that know of each other. Who was heard of lately is alive, by the database's clock; its place among the living,
-- in the order of their birth, says which share of the messages is its own.
CREATE TABLE rowq_consumers (
    queue TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    born_at BIGINT NOT NULL,
    beat_at BIGINT NOT NULL,
    PRIMARY KEY (queue, id)
);
