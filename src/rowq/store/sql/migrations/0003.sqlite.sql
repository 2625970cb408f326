-- Version 3: a number that tells this queue from any other, and duties that one process does for all.

INSERT INTO rowq_counters (name, value) VALUES ('identity', ABS(RANDOM() % 4611686018427387904));

CREATE TABLE rowq_duties (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL
) WITHOUT ROWID;
