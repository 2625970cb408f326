"""What was leased to callers who have gone away is given back, however many go at once."""

from __future__ import annotations

import threading
from pathlib import Path

import rowq
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Receive
from tests.support.patience import eventually


def test_many_who_go_away_together_keep_one_thread_busy(tmp_path: Path) -> None:
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False) as broker:
        broker.send_many("q", list(range(150)))
        engine = broker._engine
        assert isinstance(engine._group_commit, GroupCommit)
        calls = [Receive("q", 1, None, None, from_dead=False, delivery=None) for _ in range(150)]
        for call in calls:
            engine._group_commit.run(call)
        assert broker.stats("q").leased == 150
        with engine._group_commit._turn:  # nothing is written before all have gone
            for call in calls:
                engine.give_back(call)
            assert [thread.name for thread in threading.enumerate()].count("rowq-release") == 1
        eventually(lambda: broker.stats("q").ready == 150)
        assert [delivery.attempt for delivery in broker.receive("q", max=150)] == [1] * 150


def test_what_is_delivered_at_most_once_is_not_given_back(tmp_path: Path) -> None:
    """Whoever has gone away may have got it before that."""
    with rowq.connect(f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False) as broker:
        broker.configure("once", delivery="at_most_once")
        for queue in ("once", "again"):
            broker.send(queue, "x")
        engine = broker._engine
        calls = [Receive(queue, 1, None, None, from_dead=False, delivery=None) for queue in ("once", "again")]
        for call in calls:
            engine._group_commit.run(call)
        for call in calls:
            engine.give_back(call)
        eventually(lambda: broker.stats("again").ready == 1)
        assert (broker.stats("once").ready, broker.stats("once").leased) == (0, 1)
