-- Publishing on MariaDB.

-- name: insert_publication
-- A row that is there is counted as none; an upsert would count it as one.
INSERT IGNORE INTO rowq_publications (writer, version, messages, published_at)
VALUES (:writer, :version, :messages, :published_at);
