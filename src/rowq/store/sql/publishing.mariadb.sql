-- Publishing on MariaDB.

-- name: insert_publication
-- Counts 0 for an existing row; an upsert would count 1.
INSERT IGNORE INTO rowq_publications (writer, version, messages, published_at)
VALUES (:writer, :version, :messages, :published_at);
