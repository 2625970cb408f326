"""Queues as Spark's DataFrames: `format("rowq")` to read, stream and write. PySpark is imported when a session is asked for."""

from rowq.spark.session import register, session

__all__ = ["register", "session"]
