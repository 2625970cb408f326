"""A writer and the group commit in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rowq.engine.group_commit import GroupCommit
from tests.engine.jobs import Job, Performer
from tests.support.background import Background
from tests.support.patience import eventually

Gather = Callable[..., list[Background[str]]]


@pytest.fixture
def performer() -> Performer:
    return Performer()


@pytest.fixture
def group_commit(performer: Performer) -> Iterator[GroupCommit]:
    group_commit = GroupCommit(performer.perform, timeout=30)
    yield group_commit
    performer.let_go()
    Background(lambda: group_commit.close(lambda: None)).result()


@pytest.fixture
def gather(performer: Performer, group_commit: GroupCommit) -> Gather:
    """Holds the writer with one job, lets others line up behind it in the order given, and returns them all, still waiting."""

    def line_up(*jobs: Job) -> list[Background[str]]:
        performer.hold()
        first = Background(lambda: group_commit.run(Job("first")))
        performer.wait_for("first")
        others = []
        for number, job in enumerate(jobs, 1):
            others.append(Background(lambda job=job: group_commit.run(job)))  # type: ignore[misc]
            eventually(lambda number=number: len(group_commit._line.waiting) == number)  # type: ignore[misc]
        return [first, *others]

    return line_up
