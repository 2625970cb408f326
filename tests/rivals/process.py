"""Another process on the same database: a module beside this one, its log, and the ways in which it ends."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.support.astray import set_clock
from tests.support.patience import DEADLINE, eventually

ROOT = Path(__file__).parents[2]


class Rival:
    """Runs a module until it ends by itself, is told to, or is killed. What it says is in its log, a line at a time."""

    def __init__(self, part: str, url: str, log: Path, *arguments: object, package: str = "tests.rivals", clock_off: float = 0) -> None:
        self._log = log
        self._errors = log.with_suffix(".err")
        module = [f"{package}.{part}"]
        if clock_off:
            clock = log.with_suffix(".clock")
            set_clock(clock, round(clock_off * 1000))
            module = ["tests.support.astray", str(clock), *module]
        with self._log.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *module, url, *map(str, arguments)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )

    def said(self, *words: str, until: int | None = None) -> list[list[Any]]:
        """All it said of these kinds, without the words, up to a moment. A line cut off by a kill was not said."""
        lines = self._log.read_bytes()[:until].split(b"\n")[:-1]
        return [line[1:] for line in map(msgspec.json.decode, lines) if line[0] in words]

    def moment(self) -> int:
        """Now, as the length of what it has said."""
        return self._log.stat().st_size

    def await_said(self, word: str, count: int = 1, within: float = DEADLINE) -> list[list[Any]]:
        def has_said() -> list[list[Any]]:
            has_ended = self.has_ended  # before looking: its last words may come with its end
            said = self.said(word)
            assert len(said) >= count or not has_ended, f"it ended with {self._process.returncode} before {word!r}: {self.complaint()}"
            return said[:count] if len(said) >= count else []

        return eventually(has_said, within)

    def tell(self, *words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(words) + b"\n")
        self._process.stdin.flush()

    def ask(self, *words: Any) -> Any:
        """Tells it, and waits for the answer."""
        answers = len(self.said("answer"))
        self.tell(*words)
        return self.await_said("answer", answers + 1)[-1][0]

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and gone."""
        self._process.kill()
        self._process.wait(DEADLINE)

    def finish(self, within: float = DEADLINE) -> None:
        """Lets it come to its end, which must be a good one."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(within)
        assert (code, self.complaint()) == (0, ""), f"it ended with {code}: {self.complaint()}"

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def complaint(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def clear_away(self) -> None:
        if self._process.poll() is None:
            self.kill()
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()


Start = Callable[..., Rival]


@contextmanager
def starting(folder: Path, package: str) -> Iterator[Start]:
    """`start("sending", url, …)`: one more process, of a module in the package. Nobody outlives it."""
    started: list[Rival] = []

    def start(part: str, url: str, *arguments: object, package: str = package, clock_off: float = 0) -> Rival:
        log = folder / f"{len(started)}-{part}.log"
        started.append(Rival(part, url, log, *arguments, package=package, clock_off=clock_off))
        return started[-1]

    try:
        yield start
    finally:
        for rival in started:
            rival.clear_away()


def kill_at_random(rivals: list[Rival], word: str, choose: random.Random, least: int = 1, most: int = 60) -> None:
    """Each is killed in the middle of its work: a little after it has said the word so many times."""
    alive = {rival: choose.randint(least, most) for rival in rivals}
    moment = threading.Event()

    def are_all_dead() -> bool:
        for rival, count in list(alive.items()):
            if rival.has_ended or len(rival.said(word)) >= count:
                moment.wait(choose.random() * 0.01)
                rival.kill()
                del alive[rival]
        return not alive

    eventually(are_all_dead)
    complaints = [complaint for rival in rivals if (complaint := rival.complaint())]
    assert not complaints, complaints[0]


_listener = threading.local()


def say(*words: Any) -> None:
    """A line in the log of this process: whole, at once, from any thread; it stays when the process is killed. A thread that is heard by
    a thread of this process says it there."""
    line = msgspec.json.encode(words)
    heard: list[list[Any]] | None = getattr(_listener, "heard", None)
    if heard is None:
        os.write(1, line + b"\n")
    else:
        heard.append(msgspec.json.decode(line))


def heard_by(heard: list[list[Any]], work: Callable[[], None]) -> None:
    """Works in this thread; what it says goes to that list."""
    _listener.heard = heard
    work()


def listen(stop: threading.Event) -> None:
    """Sets the event when whoever started this process lets go of it."""

    def read() -> None:
        while os.read(0, 4096):
            pass
        stop.set()

    threading.Thread(target=read, daemon=True).start()


def run_threads(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
