-- Version 7: an id that a caller brought is unique in its queue, where it was unique in the database.

ALTER TABLE rowq_own_ids
    DROP PRIMARY KEY,
    ADD PRIMARY KEY (id, queue);
