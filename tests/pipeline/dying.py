"""An archiver that dies behind a step: without a word to anybody, as when it is killed.

Run as `python -m tests.pipeline.dying STEP URL LAKE`. It borrows the JVM whose gateway the environment names, which takes no time to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from rowq.engine.engine import Engine
from rowq.spark import pipeline
from rowq.spark.pipeline import archiving
from rowq.spark.pipeline.archiving import Archiver
from rowq.spark.pipeline.lake import Lake
from rowq.store.stream.segment import Commit, Plan, Purge

STEPS = ("plan", "write", "verify", "publish", "commit", "purge")
STATUS = 9
SEGMENT_LINES, PURGE_PIECE = 20, 3
_ACTS: dict[str, type] = {"plan": Plan, "commit": Commit, "purge": Purge}


def gateway_of(spark: SparkSession) -> dict[str, str]:
    """What the environment has to say for another process to use this session's JVM."""
    parameters = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}


def borrowed() -> SparkSession:
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=jvm, _jconf=context.sc().conf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


def die_behind(step: str) -> None:
    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            real(*given, **options)
            os._exit(STATUS)

        return call

    real_act = Engine.act

    def act(engine: Engine, what: Any) -> Any:
        return (deadly(real_act) if isinstance(what, _ACTS[step]) else real_act)(engine, what)

    if step in _ACTS:
        Engine.act = act  # type: ignore[method-assign,assignment]
    else:
        where: Any = {"write": archiving, "verify": Archiver, "publish": Lake}[step]
        setattr(where, step, deadly(getattr(where, step)))
    archiving.PURGE_PIECE = PURGE_PIECE


if __name__ == "__main__":
    step, url, lake = sys.argv[1:]
    spark = borrowed()
    die_behind(step)
    pipeline.archive(spark, url, lake, segment_lines=SEGMENT_LINES, purge_after_ms=0)
