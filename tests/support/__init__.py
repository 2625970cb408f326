"""What several kinds of tests need; a test that needs something alone keeps it to itself."""
