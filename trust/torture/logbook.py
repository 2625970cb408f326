"""What a participant asked and what it was answered, a line each: whole, at once, from any thread, and still there after kill -9.

    ["asked", at, thread, call, verb, …]        before the call
    ["answered", at, thread, call, …]           its answer
    ["failed", at, thread, call, code, text]    an error that rowq has a name for
    ["crashed", at, thread, call, text]         any other exception: what must never be
    ["role", at, role, way]                     the first line

`at` is microseconds of CLOCK_MONOTONIC, which all processes of a machine share and nobody sets. A call that was asked and has no
second line had no answer: its process was killed, or stands still.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

SUFFIX = ".logbook"
"""All files of a run's folder that end so are read by the checker."""

Line = list[Any]


def monotonic_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


class Logbook:
    """The pen of one process."""

    def __init__(self, path: Path, role: str, way: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._write(["role", monotonic_us(), role, way])

    def page(self, thread: int) -> Page:
        return Page(self, thread)

    def _write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


class Page:
    """Where one thread writes. Calls are numbered, so that (participant, thread, call) names each of them."""

    def __init__(self, logbook: Logbook, thread: int) -> None:
        self._logbook = logbook
        self._thread = thread
        self.call = 0

    def asked(self, verb: str, *what: Any) -> int:
        """The number of the call that is about to be made."""
        self.call += 1
        self._say("asked", verb, *what)
        return self.call

    def answered(self, *what: Any) -> None:
        self._say("answered", *what)

    def failed(self, code: str, text: str) -> None:
        self._say("failed", code, text)

    def crashed(self, text: str) -> None:
        self._say("crashed", text)

    def _say(self, kind: str, *what: Any) -> None:
        self._logbook._write([kind, monotonic_us(), self._thread, self.call, *what])


def read_logbook(path: Path) -> Iterator[Line]:
    """Every line that was written whole. One that a kill has cut off was not said."""
    decode = msgspec.json.Decoder(Line).decode
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield decode(line)


def logbooks_in(folder: Path) -> dict[str, Path]:
    """Name of a participant → its logbook."""
    return {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def count_answers(lines: bytes) -> int:
    """How many calls were answered, by a glance at whole lines: a refusal is an answer too."""
    return sum(lines.count(mark) for mark in _MARKS)


ANSWERS = frozenset({"lease_lost", "rolled_back", "id_taken", "message_not_found"})
"""Answers too, though not the ones that were hoped for."""
_MARKS = (b'["answered",', *(f',"{code}",'.encode() for code in sorted(ANSWERS)))
