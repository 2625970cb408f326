"""Those who take part: they write down all that they ask and hear, and end as they are told to."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import rowq
from tests.rivals.process import ROOT
from tests.support.astray import Offset, set_clock
from tests.support.patience import eventually
from trust.torture.checker import check
from trust.torture.logbook import SUFFIX, Logbook, count_answers, logbooks_in, read_logbook
from trust.torture.queues import QUEUES, furnish
from trust.torture.ways.hands import Caller, DriverFailed

CALLS = 25
NEARLY = 60
"""Seconds between a look at a clock there and one here, at most."""
PARTS = [(role, way) for role in ("producer", "consumer", "operator") for way in ("library", "sql")]


class Part:
    def __init__(self, role: str, way: str, url: str, folder: Path, name: str) -> None:
        self.role = role
        self._logbook = folder / f"{name}{SUFFIX}"
        self._errors = folder / f"{name}.err"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trust.torture.participant", role, way, url, name, "7", str(self._logbook), str(folder / "clock")],
                cwd=ROOT,
                stderr=errors,
            )

    def has_answers(self, count: int) -> bool:
        assert self.process.poll() is None, self._errors.read_text()
        return self._logbook.exists() and count_answers(self._logbook.read_bytes()) >= count

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert (self.process.wait(30), self._errors.read_text()) == (0, "")


@pytest.fixture
def parts() -> Iterator[list[Part]]:
    started: list[Part] = []
    yield started
    for part in started:
        if part.process.poll() is None:
            part.process.kill()
            part.process.wait(30)


@pytest.mark.prove("13 s; the torture with one of each role in test_torture.py stands for it")
def test_all_roles_take_part_until_all_is_drained_and_the_checker_agrees(tmp_path: Path, parts: list[Part]) -> None:
    url = f"sqlite:///{tmp_path}/queue.db"
    with rowq.connect(url) as broker:
        furnish(broker)
        parts += [Part(role, way, url, tmp_path, f"{role}-{way}") for role, way in PARTS]
        eventually(lambda: all(part.has_answers(CALLS if part.role != "operator" else 1) for part in parts), 100)
        killed = parts.pop(2)
        killed.process.kill()
        killed.process.wait(30)
        for part in parts:
            if part.role != "consumer":
                part.end()
        furnish(broker)
        consumers = [part for part in parts if part.role == "consumer"]
        for part in consumers:
            part.process.send_signal(signal.SIGUSR1)
        eventually(lambda: sum(broker.stats(queue).depth for queue in QUEUES) == 0, 60)
        for part in consumers:
            part.end()
    verdict = check(tmp_path, url)
    assert verdict.violations == []
    assert {way for way, _ in verdict.operations} == {"library", "sql"}
    assert verdict.messages == verdict.checked["a message's events follow from each other, and it is where they end"] > CALLS
    assert sum(verdict.operations.values()) == sum(count_answers(path.read_bytes()) for path in logbooks_in(tmp_path).values())


def test_a_message_that_vanishes_is_missed(tmp_path: Path) -> None:
    """Logbook, database and checker together: a row is taken away behind everybody's back."""
    url = f"sqlite:///{tmp_path}/queue.db"
    caller = Caller(Logbook(tmp_path / f"p{SUFFIX}", "producer", "library").page(0), threading.Event())
    with rowq.connect(url) as broker:
        furnish(broker)
        name = "p.0.1.0"
        caller.call("send", ["plain", [None]], lambda: broker.send("plain", {"name": name}), lambda id: [[id]])
        assert check(tmp_path, url).violations == []
    with closing(sqlite3.connect(tmp_path / "queue.db")) as thief, thief:
        thief.execute("DELETE FROM rowq_ready")
    named = {violation.partition(":")[0] for violation in check(tmp_path, url).violations}
    assert named == {"it is where its story ends", "the tables fit together"}


def test_a_line_that_was_cut_off_was_not_said(tmp_path: Path) -> None:
    path = tmp_path / f"p{SUFFIX}"
    page = Logbook(path, "producer", "http").page(3)
    assert page.asked("send", "plain", [None]) == 1
    page.answered(["id"])
    assert page.asked("send", "plain", [None]) == 2
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    said = list(read_logbook(path))
    assert [line[0] for line in said] == ["role", "asked", "answered"]
    assert said[1][2:] == [3, 1, "send", "plain", [None]]
    assert count_answers(whole) == 1
    assert said[1][1] <= said[2][1]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (rowq.StoreBusy("somebody holds it"), "failed", "store_busy"),
        (DriverFailed(OSError("cut")), "failed", "driver:OSError"),
        (KeyError("seven"), "crashed", "builtins.KeyError: 'seven'"),
    ],
)
def test_errors_are_written_down_and_those_without_a_name_stand_out(tmp_path: Path, error: Exception, kind: str, code: str) -> None:
    stop = threading.Event()
    stop.set()
    caller = Caller(Logbook(tmp_path / f"p{SUFFIX}", "consumer", "library").page(0), stop)

    def fail() -> None:
        raise error

    assert caller.call("ack", [], fail, lambda _: []) is None
    line = list(read_logbook(tmp_path / f"p{SUFFIX}"))[-1]
    assert (line[0], line[4]) == (kind, code)


def test_a_clock_goes_astray_while_the_program_runs(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    set_clock(clock, 3_600_000)
    program = tmp_path / "telling.py"
    program.write_text(
        "import sys, time\nfor _ in sys.stdin: print(time.time(), time.time_ns(), time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.astray", str(clock), "telling"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for ms in (3_600_000, -500_000, 0):
            Offset(clock).ms = ms
            process.stdin.write("now\n")
            process.stdin.flush()
            told, ns, steady = map(float, process.stdout.readline().split())
            assert told - time.time() == pytest.approx(ms / 1000, abs=NEARLY)
            assert ns / 1e9 == pytest.approx(told, abs=NEARLY)
            assert steady == pytest.approx(time.clock_gettime(time.CLOCK_MONOTONIC), abs=NEARLY)
        process.stdin.close()
