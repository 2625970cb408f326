"""Spark for a command: started when needed, silent, its failures reported in one line."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated

import typer

from rowq import RowqError
from rowq.cli.failure import Failure
from rowq.cli.hint import hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[str, typer.Option("--master", metavar="MASTER", help="Where Spark runs: local[4], spark://host:7077, yarn, …")]
LOCAL = "local[*]"

_OURS = re.compile(r"rowq\.errors\.\w+: (.+)")
_MOST = 400


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session for one command. The JVM's output goes to a file, which is shown if it does not start."""
    from rowq.spark import session

    hint("starting Spark, which takes a few seconds")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words:
        try:
            with _stderr_into(words):
                spark = session(master, "rowq pipeline", **{"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
        except RowqError:
            raise
        except Exception as error:
            words.seek(0)
            raise Failure(f"Spark did not start: {_told(error)}; it said: {words.read()[-_MOST:]}", code="spark_failed") from None
        try:
            yield spark
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise Failure(f"Spark failed: {_told(error)}", code="spark_failed") from None
        finally:
            spark.stop()


@contextmanager
def _stderr_into(file: IO[str]) -> Iterator[None]:
    """For processes started inside the block, for as long as they live."""
    if sys.stderr is not None:
        sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _told(error: Exception) -> str:
    """The rowq error that an executor raised, if there is one; else the first line."""
    text = str(error)
    found = _OURS.search(text)
    return found[1] if found else " ".join(text.split("\n", 1)[0].split())[:_MOST]
