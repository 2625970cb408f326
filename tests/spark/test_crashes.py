"""kill -9 of the driver, at named points and at random moments, and a restart from its checkpoint: nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowq
from tests.spark.crashing import AFTER_ACK, AFTER_SINK, BATCH, BEFORE_ACK, BEFORE_SINK, LEASED, READ, move_in
from tests.support.patience import eventually

ROOT = Path(__file__).parents[2]
WITHIN = 240
KILLS, A_ROUND = 7, 30

Start = Callable[..., subprocess.Popen[bytes]]
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("quick_drivers")]


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Start]:
    """`start(point)`: the driver once more, on the same checkpoint. It leads a process group, which does not outlive the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(point: str | None = None, *, for_ever: bool = False) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **({} if point is None else {"ROWQ_TEST_CRASH_AT": point})}
        with (tmp_path / f"driver-{len(started)}.log").open("wb") as log:
            command = [
                sys.executable,
                "-m",
                "tests.spark.crashing",
                url,
                str(tmp_path / "checkpoint"),
                "for-ever" if for_ever else "until-empty",
            ]
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT, start_new_session=True))
        return started[-1]

    yield start_one
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def logged(tmp_path: Path) -> str:
    return max(tmp_path.glob("driver-*.log"), key=lambda path: path.stat().st_mtime_ns).read_text(errors="replace")[-3_000:]


def done(broker: rowq.Broker) -> list[int]:
    return sorted(int(str(message.payload)) for message in broker.walk("done"))


def check_that_all_is_there_once(broker: rowq.Broker, count: int) -> None:
    moved = done(broker)
    assert sorted(set(range(count)) - set(moved)) == [], "lost"
    assert len(moved) == len(set(moved)), "doubled"
    stats = broker.stats("orders")
    assert (stats.ready, stats.leased) == (0, 0)


class Scene:
    """What a killed driver has left behind: in the ledger, in Spark's checkpoint, in the queues."""

    def __init__(self, broker: rowq.Broker, checkpoint: Path) -> None:
        (stream,) = broker.streams()
        self.acked, self.last = stream.acked_batch, stream.next_batch - 1
        self.held = sorted(int(str(message.payload)) for message in broker.walk("orders", states=["leased"]))
        self.planned = [json.loads(path.read_text().splitlines()[-1])["batch"] for path in _numbered(checkpoint / "offsets")]
        """The batches of the ledger that Spark has written down before it read them."""
        self.committed = len(_numbered(checkpoint / "commits"))
        """How many batches Spark knows to be done."""
        self.done = done(broker)


def _numbered(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*") if path.name.isdigit()), key=lambda path: int(path.name))


def test_a_driver_that_is_killed_behind_the_sinks_transaction_loses_and_doubles_nothing(
    start: Start, broker: rowq.Broker, url: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The short drill: one kill, where the sink has a batch and neither Spark nor the ledger knows. Another driver goes on."""
    broker.send_many("orders", list(range(BATCH + 1)))
    assert start(AFTER_SINK).wait(WITHIN) == -signal.SIGKILL, logged(tmp_path)
    scene = Scene(broker, tmp_path / "checkpoint")
    assert (scene.acked, scene.last, scene.done, scene.committed) == (0, 1, list(range(BATCH)), 0)
    move_in(spark, url, str(tmp_path / "checkpoint"))
    check_that_all_is_there_once(broker, BATCH + 1)


@pytest.mark.prove("seven drivers for each database, 130 s; the short drill above stands for it")
def test_a_driver_that_is_killed_at_each_point_loses_and_doubles_nothing(start: Start, broker: rowq.Broker, tmp_path: Path) -> None:
    broker.configure("done")
    broker.send_many("orders", list(range(3 * BATCH)))
    first, second = list(range(BATCH)), list(range(BATCH, 2 * BATCH))

    def after_a_kill(point: str) -> Scene:
        assert start(point).wait(WITHIN) == -signal.SIGKILL, f"it was not killed {point}: {logged(tmp_path)}"
        return Scene(broker, tmp_path / "checkpoint")

    scene = after_a_kill(LEASED)
    assert (scene.last, scene.held, scene.planned) == (1, first, []), "the ledger has a batch that Spark does not know"
    scene = after_a_kill(READ)
    assert (scene.last, scene.held, scene.planned) == (1, first, [1]), "the orphan was taken up, and no other batch begun"
    scene = after_a_kill(BEFORE_SINK)
    assert (scene.last, scene.done, scene.committed) == (1, [], 0)
    scene = after_a_kill(AFTER_SINK)
    assert (scene.last, scene.done, scene.committed) == (1, first, 0), "the sink has it, and Spark does not know"
    scene = after_a_kill(BEFORE_ACK)
    assert (scene.last, scene.done, scene.committed) == (1, first, 1), "the batch was played again, and the sink skipped it"
    assert (scene.acked, scene.held) == (0, first), "and it is still to be settled"
    scene = after_a_kill(AFTER_ACK)
    assert (scene.acked, scene.held, scene.planned, scene.done) == (1, second, [1, 2], first)
    assert start().wait(WITHIN) == 0, logged(tmp_path)
    assert Scene(broker, tmp_path / "checkpoint").planned == [1, 2, 3]
    check_that_all_is_there_once(broker, 3 * BATCH)


@pytest.mark.prove("nine drivers for each database, 130 s; the short drill above stands for it")
def test_a_driver_that_is_killed_at_random_moments_loses_and_doubles_nothing(start: Start, broker: rowq.Broker, tmp_path: Path) -> None:
    """Moments from the start of the process to the time that a whole run takes, one in each part of it, in any order."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)

    def run(seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        assert process.poll() is None, f"it ended by itself (seed {seed}): {logged(tmp_path)}"

    def is_through(count: int) -> bool:
        run(0.2)
        return broker.stats("done").ready >= count and broker.stats("orders").leased == 0

    broker.configure("done")
    broker.send_many("orders", list(range(A_ROUND)))
    began, process = time.monotonic(), start(for_ever=True)
    eventually(lambda: is_through(A_ROUND), within=WITHIN)
    a_run = time.monotonic() - began
    kill(process)
    moments = [a_run * (part + chance.random()) / KILLS for part in range(KILLS)]
    chance.shuffle(moments)
    for round, moment in enumerate(moments, 1):
        broker.send_many("orders", list(range(round * A_ROUND, (round + 1) * A_ROUND)))
        process = start(for_ever=True)
        run(moment)
        kill(process)
    process = start(for_ever=True)
    eventually(lambda: is_through((KILLS + 1) * A_ROUND), within=WITHIN)
    kill(process)
    check_that_all_is_there_once(broker, (KILLS + 1) * A_ROUND)
