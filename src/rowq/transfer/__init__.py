"""Copies queues from one database into another, with all their data: in batches, and resumable."""
