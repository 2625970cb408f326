"""A standalone cluster on this machine, a master and two workers in processes of their own, with the queues in PostgreSQL."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

import rowq
from rowq.spark.java import find_java
from tests.support.database import new_database
from tests.support.jvm import OPTIONS
from tests.support.patience import eventually

ROOT = Path(__file__).parents[2]
WITHIN = 240

Start = Callable[..., Path]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def environment(quick_drivers: None) -> dict[str, str]:
    named = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    of_spark = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **named, **of_spark, "SPARK_DAEMON_JAVA_OPTS": os.environ[OPTIONS]}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """`start("master.Master", …)`: one more process of the cluster; gives its log. None outlives the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(part: str, *arguments: str) -> Path:
        path = tmp_path / f"{len(started)}-{part}.log"
        program = Path(environment["SPARK_HOME"]) / "bin" / "spark-class"
        with path.open("wb") as log:
            command = [str(program), f"org.apache.spark.deploy.{part}", "--host", "127.0.0.1", "--webui-port", "0", *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True))
        return path

    yield start_one
    for process in reversed(started):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def master(start: Start, tmp_path: Path) -> str:
    """The address of a cluster with two workers."""
    log = start("master.Master", "--port", "0")
    found = eventually(lambda: re.findall(r"Starting Spark master at (spark://\S+)", log.read_text(errors="replace")), within=WITHIN)
    address = str(found[0])
    for number in (1, 2):
        start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}"), address)
    eventually(lambda: log.read_text(errors="replace").count("Registering worker") == 2, within=WITHIN)
    return address


@pytest.mark.prove(
    "a cluster of six JVMs, a minute; test_streaming.py and test_reading.py stand for it, in one JVM with processes of Python"
)
def test_a_program_runs_on_a_cluster_as_it_does_here(master: str, environment: dict[str, str], tmp_path: Path) -> None:
    url = new_database("postgresql", tmp_path).url
    with rowq.connect(url) as broker:
        broker.send_many("orders", list(range(500)))
        command = [sys.executable, "-m", "tests.spark.clustered", master, url, str(tmp_path / "checkpoint")]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr[-5_000:]
        assert json.loads(done.stdout.splitlines()[-1]) == {"executors": 2, "read": 500}
        for queue in ("copies", "done"):
            assert sorted(int(str(message.payload)) for message in broker.walk(queue)) == list(range(500))
        stats = broker.stats("orders")
        assert (stats.ready, stats.leased) == (0, 0)
