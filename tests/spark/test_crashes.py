"""kill -9 of the driver, at named points and at random moments, and a restart from its checkpoint: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rowq
from tests.spark.crashing import POINTS
from tests.support.patience import eventually

ROOT = Path(__file__).parents[2]
WITHIN = 120
ROUNDS, A_ROUND = 7, 40

Start = Callable[..., subprocess.Popen[bytes]]
pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Start]:
    """`start(point)`: the driver once more, on the same checkpoint. It leads a process group, which does not outlive the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(point: str | None = None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **({} if point is None else {"ROWQ_TEST_CRASH_AT": point})}
        with (tmp_path / f"driver-{len(started)}.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.spark.crashing", url, str(tmp_path / "checkpoint")]
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


def test_a_driver_that_is_killed_at_each_point_loses_and_doubles_nothing(start: Start, broker: rowq.Broker, tmp_path: Path) -> None:
    broker.send_many("orders", list(range(40)))
    for point in POINTS:
        assert start(point).wait(WITHIN) == -signal.SIGKILL, f"it was not killed {point}: {logged(tmp_path)}"
    assert start().wait(WITHIN) == 0, logged(tmp_path)
    check_that_all_is_there_once(broker, 40)


def test_a_driver_that_is_killed_at_random_moments_loses_and_doubles_nothing(start: Start, broker: rowq.Broker, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    broker.send_many("orders", list(range(A_ROUND)))
    for round in range(1, ROUNDS + 1):
        broker.send_many("orders", list(range(round * A_ROUND, (round + 1) * A_ROUND)))
        process, enough = start(), len(done(broker)) + chance.randrange(20)
        eventually(lambda process=process, enough=enough: process.poll() is not None or len(done(broker)) > enough, within=WITHIN)  # type: ignore[misc]
        threading.Event().wait(chance.random())
        assert process.poll() is None, f"it ended by itself (seed {seed}): {logged(tmp_path)}"
        kill(process)
    assert start().wait(WITHIN) == 0, logged(tmp_path)
    check_that_all_is_there_once(broker, (ROUNDS + 1) * A_ROUND)
