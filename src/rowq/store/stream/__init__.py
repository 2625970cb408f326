"""Streams of messages in numbered batches, staged messages and archive segments, as rows."""
