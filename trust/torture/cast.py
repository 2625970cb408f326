"""Who takes part: producers, consumers and operators by every way, each replaced by another when it was killed."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.astray import Offset
from tests.support.patience import eventually
from trust.torture.actor import Actor
from trust.torture.logbook import SUFFIX, count_answers

Urls = dict[str, list[str]]
"""By way: where it leads; whoever comes takes the next one."""

Parts = Sequence[tuple[str, str]]
"""A role and a way each."""

ROLES = ("producer", "consumer", "operator")
PARTS: Parts = (
    ("producer", "library"),
    ("producer", "http"),
    ("producer", "sql"),
    ("consumer", "library"),
    ("consumer", "http"),
    ("consumer", "sql"),
    ("consumer", "library"),
    ("operator", "http"),
    ("operator", "library"),
    ("operator", "sql"),
)


_BEGUN = 120.0
"""Seconds until whoever was started takes part."""


@dataclass(eq=False)
class Member:
    role: str
    way: str
    actor: Actor
    clock: Path


class Cast:
    """One clock for all, where they are to share one; else each has its own."""

    def __init__(self, folder: Path, urls: Urls, seed: int, shared_clock: Path | None) -> None:
        self._folder = folder
        self._urls = urls
        self._choose = random.Random(seed)
        self._shared_clock = shared_clock
        self._lock = threading.Lock()
        self._started = 0
        self._free: list[Member] = []
        self._busy: list[Member] = []
        self._tally = _Tally(folder)

    def enter(self, parts: Parts) -> None:
        for role, way in parts:
            self._free.append(self._start(role, way))

    def await_begun(self) -> None:
        """Everybody is connected, and has opened a logbook."""
        eventually(lambda: all(self._has_begun(member.actor.name) for member in self.members), _BEGUN)

    @property
    def members(self) -> list[Member]:
        with self._lock:
            return self._free + self._busy

    def operations(self) -> int:
        """Calls that were answered, by now."""
        return self._tally.count()

    @contextmanager
    def borrowed(self, role: str, choose: random.Random) -> Iterator[Member]:
        """One of a role, with whom nobody else does anything meanwhile."""
        with self._lock:
            member = choose.choice([member for member in self._free if member.role == role])
            self._free.remove(member)
            self._busy.append(member)
        try:
            yield member
        finally:
            with self._lock:
                self._busy.remove(member)
                self._free.append(member)

    def replace(self, member: Member) -> None:
        """One that has ended: another comes in its place, under a name of its own."""
        successor = self._start(member.role, member.way)
        member.actor, member.clock = successor.actor, successor.clock

    def end(self, *roles: str) -> list[str]:
        """Those of these roles; what is to be said against how they ended."""
        leaving = [member for member in self.members if member.role in roles]
        for member in leaving:
            member.actor.tell_to_end()
        ended = [(member.actor.name, member.actor.end()) for member in leaving]
        wrong = [f"{name} ended with {code}" for name, code in ended if code and self._has_begun(name)]
        with self._lock:
            self._free = [member for member in self._free if member not in leaving]
        return wrong

    def drain(self) -> None:
        """From now on consumers only ack."""
        for member in self.members:
            if member.role == "consumer":
                eventually(lambda member=member: self._has_begun(member.actor.name), _BEGUN)  # type: ignore[misc]
                member.actor.signal(signal.SIGUSR1)

    def kill(self) -> None:
        for member in self.members:
            with suppress(ProcessLookupError):
                member.actor.kill()

    def _has_begun(self, name: str) -> bool:
        """Who was only just started does not know yet what it is told."""
        return (self._folder / f"{name}{SUFFIX}").exists()

    def _start(self, role: str, way: str) -> Member:
        with self._lock:
            self._started += 1
            name = f"{role}-{way}-{self._started}"
            seed = self._choose.randrange(1 << 31)
            url = self._urls[way][self._started % len(self._urls[way])]
        clock = self._shared_clock or self._folder / f"{name}.clock"
        Offset(clock)
        logbook = self._folder / f"{name}{SUFFIX}"
        arguments = (role, way, url, name, str(seed), str(logbook), str(clock))
        return Member(role, way, Actor(name, self._folder, "trust.torture.participant", *arguments), clock)


class _Tally:
    """Counts answers in logbooks as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._count = 0

    def count(self) -> int:
        for path in self._folder.glob(f"*{SUFFIX}"):
            with path.open("rb") as book:
                book.seek(self._read.get(path, 0))
                grown = book.read()
            whole = grown.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            self._count += count_answers(grown[:whole])
        return self._count
