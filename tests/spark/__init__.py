"""Queues through Spark: options, reading, streams, sinks, and what is left after kill -9."""
