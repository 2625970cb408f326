"""Drivers of Spark that start in half the time: the classes of Spark are loaded once for a run, and every driver after that maps them.

python -m tests.support.jvm     loads what a driver loads that moves some messages: its JVM writes that down when it ends
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.servers.run import current_run

ROOT = Path(__file__).parents[2]
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable by which every driver is told, whoever starts it. Unlike others it is obeyed without a word on stderr."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"
"""A JVM that lives for some seconds need not optimise itself. One that cannot use the classes loads its own, and says nothing of it."""
_PATIENCE = 100
"""Seconds; half a minute is usual."""


def hasten_drivers() -> None:
    """Of this process and of all that it starts. Where the classes cannot be had in time, drivers start as slowly as anywhere."""
    classes = current_run().folder / "spark.jsa"
    with current_run().locked("spark"):
        if not classes.exists():
            draft = classes.with_suffix(".new")
            told = {**os.environ, OPTIONS: f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={draft}"}
            with suppress(subprocess.SubprocessError, FileNotFoundError):
                subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, env=told, check=True, capture_output=True, timeout=_PATIENCE)
                draft.rename(classes)
            classes.touch()  # empty, nobody tries again
    mapped = f" -XX:SharedArchiveFile={classes}" if classes.stat().st_size else ""
    os.environ[OPTIONS] = _SHORT_LIVED + mapped


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
