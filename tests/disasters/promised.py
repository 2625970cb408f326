"""Holds what a fault has left against a promise: once, or as often as it takes to see what may be lost."""

from __future__ import annotations

import itertools
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.disasters.survival import undone_of
from tests.docs.promises import Promise
from tests.rivals.process import Rival, Start

log = logging.getLogger(__name__)

ROUNDS = int(os.environ.get("ROWQ_FAULTS", "1"))
"""Of each kind of load, for each promise."""
_MOST_ROUNDS = 10
"""What may be lost is seen to be lost within so many, if it is."""
SOON, AMID = (40, 160), (100, 400)
"""Answers before the fault."""
names = (f"load{number}" for number in itertools.count())
"""Of queues that nobody has used."""

Strike = Callable[[tuple[str, ...]], tuple[Rival, int | None]]
"""A process lives as it is told, and the fault strikes; it has ended then, and the database is there again. Also says up to which moment
what it was answered counts, if not all does."""


def each(promises: Sequence[Promise]) -> pytest.MarkDecorator:
    """Every promise, as often as it takes to see what may be lost; and the first one of each database, which is its default, once."""
    defaults = {promise.kind: promise for promise in reversed(promises)}.values()
    proof = pytest.mark.prove("200 s for all; the default of each database, struck once, stands for it")
    return pytest.mark.parametrize(
        ("promise", "often"),
        [
            *(pytest.param(promise, False, id=f"{promise}-once") for promise in promises if promise in defaults),
            *(pytest.param(promise, True, id=str(promise), marks=proof) for promise in promises),
        ],
    )


def check(promise: Promise, strike: Strike, url: str, *, often: bool) -> None:
    """What is promised to be kept is kept, each time. What may be lost is lost only if the fault strikes at the right moment."""
    undone: Counter[str] = Counter()
    strikes = answered = 0
    may_go = {kind for kind, _ in promise.fates} - promise.kept
    for round in range(max(ROUNDS, _MOST_ROUNDS) if often else 1):
        if round >= ROUNDS and may_go <= undone.keys():
            break
        for how in loads(promise):
            rival, until = strike(how)
            undone += undone_of(rival, url, promise.kept, until)
            strikes, answered = strikes + 1, answered + len(rival.said("done", until=until))
    log.info("%s, %s: %s times, %s calls answered, undone: %s", promise.fault, promise, strikes, answered, dict(undone) or "none")
    assert undone.keys() <= may_go
    assert undone.keys() == may_go or not often, "a fault that no test notices proves nothing"


def loads(promise: Promise) -> list[tuple[str, ...]]:
    """A load of everything; and where only some calls are kept, one in which none of them takes the others to the disk."""
    return [(), ("handling",)] if 0 < len(promise.kept) < len(promise.fates) else [()]


def begin_living(
    start: Start, url: str, how: tuple[str, ...], choose: random.Random, *, often: bool = False
) -> tuple[Rival, Callable[[], object]]:
    """A process that lives, and the wait for a moment in the middle of it."""
    rival = start("living", url, next(names), *how)
    rival.await_said("prepared")
    answers = len(rival.said("done")) + choose.randint(*(AMID if often else SOON))
    return rival, lambda: rival.await_said("done", answers)
