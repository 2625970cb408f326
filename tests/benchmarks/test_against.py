"""Two commits are compared by the same work, round by round, and what costs more CPU time is a miss."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks import against
from benchmarks.against_work import Figure
from benchmarks.harness import Progress

SEND, BATCHES = "sqlite send", "postgresql 3 processes receive(100) + ack_many, no audit"


@pytest.mark.parametrize(("new", "holds"), [(102.0, True), (104.0, False)])
def test_more_cpu_time_than_before_is_a_miss(new: float, holds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"old": Figure(100, 50, 0), "new": Figure(new, 40, 0)}
    monkeypatch.setattr(against, "_tree", lambda commit: nullcontext(Path()))
    monkeypatch.setattr(against, "_run", lambda side, *_: figures[side])
    chapter = against.compare("before", 2, 1, Progress(), [SEND])
    assert [(claim.what, claim.values, claim.holds) for claim in chapter.claims] == [("sqlite send: CPU", (new / 100,) * 2, holds)]
    assert {series.gauge.what: series.median for series in chapter.series} == {"CPU, old": 100, "CPU, new": new, "rate, new to old": 1.25}


def test_what_the_old_tree_cannot_do_is_told_and_what_this_one_cannot_do_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SystemExit, match="sqlite send failed"):
        against._run("new", Path(), SEND, "sqlite://", 1, None)
    with pytest.raises(against.CannotRun) as refused:
        against._run("old", Path(), SEND, "sqlite://", 1, None)

    def run(side: str, *_: object) -> Figure:
        if side == "old":
            raise refused.value
        return Figure(1, 1, 0)

    monkeypatch.setattr(against, "_tree", lambda commit: nullcontext(Path()))
    monkeypatch.setattr(against, "_run", run)
    chapter = against.compare("before", 2, 1, Progress(), [SEND])
    assert not chapter.claims and [note for note in chapter.notes if "sqlite send cannot run in the old tree" in note] == chapter.notes[:1]


@pytest.mark.prove("5 s, for a checkout of git and a PostgreSQL of its own; the figures of one work are compared in `make test`")
def test_a_commit_runs_beside_this_tree() -> None:
    if not (against.ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    chapter = against.compare("HEAD", 1, 0.05, Progress(), [SEND, BATCHES])
    assert {claim.what for claim in chapter.claims} == {f"{SEND}: CPU", f"{BATCHES}: CPU", f"{BATCHES}: server CPU"}
    assert all(0.2 < claim.median < 5 for claim in chapter.claims)
