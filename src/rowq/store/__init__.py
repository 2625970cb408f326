"""What each verb reads and writes in the database, in batches. The rules are in rowq.model.lifecycle."""
