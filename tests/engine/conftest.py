"""A desk and the fusion in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rowq.engine.group_commit import Fusion
from tests.engine.jobs import Desk, Job
from tests.support.background import Background
from tests.support.patience import eventually

Gather = Callable[..., list[Background[str]]]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def fusion(desk: Desk) -> Iterator[Fusion]:
    fusion = Fusion(desk.perform, timeout=30)
    yield fusion
    desk.let_go()
    Background(lambda: fusion.close(lambda: None)).result()


@pytest.fixture
def gather(desk: Desk, fusion: Fusion) -> Gather:
    """Holds the desk with one job, lets others line up behind it in the order given, and returns them all, still waiting."""

    def line_up(*jobs: Job) -> list[Background[str]]:
        desk.hold()
        first = Background(lambda: fusion.run(Job("first")))
        desk.wait_for("first")
        others = []
        for number, job in enumerate(jobs, 1):
            others.append(Background(lambda job=job: fusion.run(job)))  # type: ignore[misc]
            eventually(lambda number=number: len(fusion._line) == number)  # type: ignore[misc]
        return [first, *others]

    return line_up
