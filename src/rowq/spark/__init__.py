"""Queues as Spark DataFrames: `format("rowq")` to read, stream and write. PySpark is imported when a session is requested."""

from rowq.spark.session import register, session

__all__ = ["register", "session"]
