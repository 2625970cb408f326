"""Drivers of Spark that start in half the time: the classes of Spark are loaded once, and every driver after that maps them.

python -m tests.support.jvm     loads what a driver loads that moves some messages: its JVM writes that down when it ends
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from rowq.spark.java import find_java
from tests.support.servers.run import current_run

ROOT = Path(__file__).parents[2]
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable by which every driver is told, whoever starts it. Unlike others it is obeyed without a word on stderr."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"
"""A JVM that lives for some seconds need not optimise itself. One that cannot use the classes loads its own, and says nothing of it."""
_PATIENCE = 240
"""Seconds; half a minute is usual."""


def hasten_drivers() -> None:
    """Of this process and of all that it starts. Where the classes cannot be had in time, drivers start as slowly as anywhere."""
    classes, was_tried = _archive(), current_run().folder / "spark-was-tried"
    with current_run().locked("spark"):
        if not classes.exists() and not was_tried.exists():
            was_tried.touch()
            draft = classes.with_suffix(f".{os.getpid()}")
            told = {**os.environ, OPTIONS: f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={draft}"}
            with suppress(subprocess.SubprocessError, FileNotFoundError):
                subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, env=told, check=True, capture_output=True, timeout=_PATIENCE)
                draft.rename(classes)
    mapped = f" -XX:SharedArchiveFile={classes}" if classes.exists() else ""
    os.environ[OPTIONS] = _SHORT_LIVED + mapped


def _archive() -> Path:
    """In the virtual environment, for later runs, where this user may write there. Another Spark or Java has another one."""
    java = find_java()
    stamp = (java.home / "bin" / "java").stat().st_mtime_ns
    folder = Path(sys.prefix) if os.access(sys.prefix, os.W_OK) else current_run().folder
    return folder / f"spark-{version('pyspark')}-java-{java.version}-{stamp:x}.jsa"


def _load() -> None:
    import rowq.spark

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        with rowq.connect(url) as broker:
            broker.send_many("from", ["a", "b"])
        spark = rowq.spark.session("local[2]", "classes")
        jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        read = spark.readStream.format("rowq").options(url=url, queue="from", streamId="classes").load()
        write = read.writeStream.format("rowq").options(
            url=url, queue="to", formatColumn="format", checkpointLocation=f"{folder}/checkpoint"
        )
        write.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
        jvm.stdin.close()
        jvm.wait(_PATIENCE)


if __name__ == "__main__":
    _load()
