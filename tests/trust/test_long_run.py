"""Runs of hours: whoever ends one finds nothing of it left, and a log tells that it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.patience import eventually
from trust.long_run import telling

ROOT = Path(__file__).parents[2]
AS_A_SHELL_STARTS_JOBS = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""In the background, where Ctrl-C is not for them."""
ENDED = pytest.mark.prove("a run begins only to be ended, 5 s each; a torture on SQLite that gets SIGTERM stands for it")


class Run:
    """`python -m …` with all that it puts anywhere below one folder."""

    def __init__(self, place: Path, said: Path, *arguments: str) -> None:
        self.place = place
        environment = {name: value for name, value in os.environ.items() if name != "TEST_RUN_OF_ROWQ"}
        self._said = said.open("wb")
        self._process = subprocess.Popen(
            [*AS_A_SHELL_STARTS_JOBS, sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={**environment, "TMPDIR": str(place)},
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
        )

    @property
    def said(self) -> str:
        return Path(self._said.name).read_text(encoding="utf-8", errors="replace")

    def started(self) -> list[psutil.Process]:
        """Its children, and servers, which have no parent: those who have its folder in their environment or their command."""
        assert self._process.poll() is None, self.said
        others = [process for process in psutil.process_iter() if process.pid not in (os.getpid(), self._process.pid)]
        return [process for process in others if str(self.place) in _words_of(process)]

    def end(self, number: int) -> int:
        self._process.send_signal(number)
        return self._process.wait(90)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(90)
        self._said.close()


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="rowq-ended-") as place:  # not the test's own: PostgreSQL runs as somebody who may not go there
        Path(place).chmod(0o711)
        run = Run(Path(place), folder / "said", *arguments)
        try:
            yield run
        finally:
            run.close()


def ends_with_nothing_left(run: Run, number: int, has_begun: Callable[[set[str]], bool]) -> None:
    """`has_begun`: of the words in the commands of those it has started, whether they are all there."""
    eventually(lambda: has_begun({word for process in run.started() for word in _words_of(process).split("\0")}), 60)
    started = run.started()
    assert run.end(number) == 130, run.said
    assert [process for process in started if process.is_running() and process.status() != psutil.STATUS_ZOMBIE] == []
    assert [path for path in run.place.rglob("*") if path.is_mount()] == []
    assert list(run.place.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param("sqlite", signal.SIGINT, marks=ENDED),
        ("sqlite", signal.SIGTERM),
        pytest.param("postgresql", signal.SIGTERM, marks=ENDED),
    ],
    ids=str,
)
def test_a_torture_that_is_ended_leaves_nobody_behind_and_no_disk(kind: str, number: int, tmp_path: Path) -> None:
    with running(tmp_path, "trust.torture", "--database", kind, "--folder", str(tmp_path / "logbooks")) as run:
        ends_with_nothing_left(run, number, lambda words: {"serve", "producer", "consumer", "operator"} <= words)


@ENDED
def test_a_soak_that_is_ended_leaves_nobody_behind(tmp_path: Path) -> None:
    with running(tmp_path, "trust.soak", "--database", "sqlite", "--folder", str(tmp_path / "databases")) as run:
        ends_with_nothing_left(run, signal.SIGTERM, lambda words: {"serve", "trust.soak.client"} <= words)
    assert list((tmp_path / "databases").iterdir()) == []


@ENDED
def test_a_sabotage_that_is_ended_leaves_nobody_behind(tmp_path: Path) -> None:
    with running(tmp_path, "trust.sabotage", "--only", "answers-before-the-commit") as run:
        ends_with_nothing_left(run, signal.SIGTERM, lambda words: "trust.sabotage.witness" in words)


def test_without_a_terminal_a_line_now_and_then_tells_how_far_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def is_told() -> bool:
        said.extend(capfd.readouterr().err.splitlines())
        return "soak: 1,200 of 10,000 after 0 min" in said

    with telling("soak", 10_000, every=0.01) as advance:
        advance(1_200)
        eventually(is_told)


def _words_of(process: psutil.Process) -> str:
    try:
        return "\0".join([*process.cmdline(), *process.environ().values()])
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""
