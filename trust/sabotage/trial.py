"""A trial: some tests, run on a copy of the source, and what they told."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trust.sabotage import witness
from trust.sabotage.scratch import ROOT, Scratch
from trust.sabotage.witness import Told

LONGEST_TEST = 100
_RAN = (0, 1)
"""How pytest ends when it has run all that it was given: all well, or some failed."""


@dataclass(frozen=True)
class Trial:
    told: list[Told]
    seconds: float
    output: str
    has_run: bool
    """False where pytest gave up before the end, was stopped, or was killed."""

    @property
    def proof(self) -> Told | None:
        return next((told for told in self.told if told.is_proof), None)

    @property
    def failed(self) -> list[Told]:
        return [told for told in self.told if told.outcome == "failed"]


class Court:
    """Holds trials, several at a time, and ends those that are under way when it is closed."""

    def __init__(self) -> None:
        self._under_way: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def hold(self, scratch: Scratch, tests: Sequence[str], *, hangs: int = 0, limit: float, workers: int = 0) -> Trial:
        story, output = scratch.folder / "story", scratch.folder / "output"
        story.unlink(missing_ok=True)
        started = time.monotonic()
        with output.open("wb") as out:
            process = self._start(_command(scratch, tests, hangs or LONGEST_TEST, workers), _environment(scratch, story, hangs), out)
        try:
            ended = process.wait(limit)
        except subprocess.TimeoutExpired:
            ended = None
        finally:
            self._end(process)
        text = output.read_text(encoding="utf-8", errors="replace")
        return Trial(witness.read(story), time.monotonic() - started, text, ended in _RAN)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            under_way = list(self._under_way)
        for process in under_way:
            self._end(process)

    def _start(self, command: list[str], environment: dict[str, str], out: IO[bytes]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise InterruptedError("it is over")
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._under_way.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """With all that it has started and not ended; its servers are ended by the run that comes next."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with self._lock:
            self._under_way.discard(process)


def _command(scratch: Scratch, tests: Sequence[str], timeout: int, workers: int) -> list[str]:
    options = [
        "-q",
        "-m",
        "",  # whether they are in `make test` or in `make prove`
        "-p",
        "trust.sabotage.witness",
        "-p",
        "no:cacheprovider",
        f"--timeout={timeout}",
        f"--basetemp={scratch.folder / 'tmp'}",
    ]
    together = [f"--numprocesses={workers}", "--dist=worksteal"] if workers else []
    return [str(scratch.python), "-m", "pytest", *options, *together, *tests]


def _environment(scratch: Scratch, story: Path, hangs: int) -> dict[str, str]:
    """What Hypothesis finds in a damaged copy must not be remembered in the project."""
    return os.environ | {
        witness.HOME: str(scratch.source),
        witness.STORY: str(story),
        witness.HANGS: "1" if hangs else "0",
        "DEADLINE_OF_TESTS": "20",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch.folder / "hypothesis"),
    }
