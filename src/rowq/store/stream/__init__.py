"""The tables of streams in numbered batches, of staged messages and of archive segments."""
