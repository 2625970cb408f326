"""A Spark session ready for queues: Java found, workers with this Python, times in UTC. It finds the source by itself."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rowq.errors import InvalidArgument
from rowq.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USUAL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(master: str = "local[*]", app: str = "rowq", **conf: object) -> SparkSession:
    """The session of this process, started if there is none; `spark.stop()` ends it.

    Settings go by their names in Spark: `session("local[2]", **{"spark.ui.enabled": True})`. On a session that runs already they
    are applied as far as Spark can change them then.

        with rowq.spark.session() as spark:
            spark.read.format("rowq").option("url", "sqlite:///jobs.db").option("queue", "orders").load().show()
    """
    check_installed()
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        _prepare_environment()
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**_USUAL, **_sized(master), **conf}.items():
        builder = builder.config(name, _text(value))
    return builder.getOrCreate()


def register(spark: SparkSession) -> None:
    """Makes `format("rowq")` known to a session whose own Python has no rowq, such as one on a Spark Connect server. All others find it by
    themselves, through the module `pyspark_rowq`."""
    check_installed()
    from rowq.spark.source import RowqSource

    spark.dataSource.register(RowqSource)


def check_installed() -> None:
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise InvalidArgument(f"the pipeline needs {package}, which is not installed: pip install 'rowq[spark]'")


def _prepare_environment() -> None:
    """Runs before the JVM starts, which inherits the environment. Workers with another Python would not find rowq."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _sized(master: str) -> dict[str, object]:
    """Spark splits every shuffle into 200 parts, which suits a cluster; a stream on one machine would spend its time on empty ones."""
    return {"spark.sql.shuffle.partitions": os.cpu_count() or 1} if master.startswith("local") else {}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
