"""What is fuzzed: a decoder, and what must hold of whatever it makes of any input. A target is given bytes, and raises if rowq is wrong.

Refusing is right, in words of our own: a RowqError, or what the command line says of an option. Any other exception is a fault, and so is
an answer that takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import typer

from rowq.errors import RowqError
from rowq.server.http.errors import HttpError

REFUSALS = (RowqError, HttpError, typer.BadParameter)
LONGEST = 20.0
"""Seconds of computing for one input, however long and hostile: twenty times what the slowest needs on a machine that is not busy."""

Run = Callable[[bytes], None]


class Target(NamedTuple):
    name: str
    run: Run
    seeds: tuple[bytes, ...]
    """Sound input, from which the search begins."""

    def check(self, data: bytes) -> None:
        """Raises what is wrong."""
        with quickly():
            self.run(data)


TARGETS: dict[str, Target] = {}


def target(*seeds: str | bytes) -> Callable[[Run], Run]:
    """Makes a target of a function that takes bytes."""

    def register(run: Run) -> Run:
        name = run.__name__
        assert name not in TARGETS
        TARGETS[name] = Target(name, run, tuple(seed.encode() if isinstance(seed, str) else seed for seed in seeds))
        return run

    return register


def text_target(*seeds: str) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    """Makes a target of a function that takes text. Bytes that are no UTF-8 become lone surrogates, as in arguments of a program."""

    def register(run: Callable[[str], None]) -> Callable[[str], None]:
        def run_text(data: bytes) -> None:
            run(data.decode("utf-8", "surrogateescape"))

        run_text.__name__ = run.__name__
        target(*seeds)(run_text)
        return run

    return register


@contextmanager
def refusing() -> Iterator[None]:
    """What is inside may refuse its input."""
    try:
        yield
    except REFUSALS as refusal:
        if not str(refusal).strip():
            raise AssertionError("a refusal says what is wrong") from refusal


class TooSlow(AssertionError):
    """A short input kept the machine busy."""


@contextmanager
def quickly(seconds: float = LONGEST) -> Iterator[None]:
    """Measures computing, not waiting: others may use the machine."""
    began = time.thread_time()
    yield
    if (took := time.thread_time() - began) > seconds:
        raise TooSlow(f"it took {took:.1f} s of computing")
