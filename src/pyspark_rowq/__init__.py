"""What makes Spark find `format("rowq")` by itself: it looks for a module of this name when it knows no such source."""

from rowq.spark.source import RowqSource as DefaultSource

__all__ = ["DefaultSource"]
