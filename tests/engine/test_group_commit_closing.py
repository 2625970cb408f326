"""Closing while others keep coming: whoever came in time is answered, whoever came late is refused, and nobody is left waiting."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rowq import BrokerClosed
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call
from tests.engine.jobs import Job, Performer
from tests.support.crowd import Crowd

ROUNDS = 60


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that the narrow moments are met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


class ClosingDesk(Performer):
    """Nothing may be performed once it is closed: the database is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def perform(self, calls: Sequence[Call[Any]]) -> None:
        assert not self.is_closed, "performed on a closed database"
        super().perform(calls)

    def close(self) -> None:
        self.is_closed = True


def test_threads_are_answered_or_refused() -> None:
    chance = random.Random(1)

    def call_until_refused(group_commit: GroupCommit) -> int:
        answered = 0
        try:
            while True:
                assert group_commit.run(Job("x")) == "x"
                answered += 1
        except BrokerClosed:
            return answered

    for _ in range(ROUNDS):
        performer = ClosingDesk()
        group_commit = GroupCommit(performer.perform, timeout=30)
        callers = Crowd([lambda group_commit=group_commit: call_until_refused(group_commit) for _ in range(6)])  # type: ignore[misc]
        threading.Event().wait(chance.uniform(0, 0.004))
        group_commit.close(performer.close)
        assert sum(callers.results(10)) == sum(map(len, performer.batches))


def test_coroutines_are_answered_or_refused() -> None:
    chance = random.Random(2)

    async def call_until_refused(group_commit: GroupCommit) -> int:
        answered = 0
        try:
            while True:
                assert await group_commit.run_async(Job("x")) == "x"
                answered += 1
        except BrokerClosed:
            return answered

    async def close_among_callers(group_commit: GroupCommit, performer: ClosingDesk) -> int:
        callers = asyncio.gather(*(call_until_refused(group_commit) for _ in range(20)))
        closing = threading.Timer(chance.uniform(0, 0.008), group_commit.close, (performer.close,))
        closing.start()
        answered = sum(await asyncio.wait_for(callers, 10))
        await asyncio.to_thread(closing.join)
        return answered

    for _ in range(ROUNDS):
        performer = ClosingDesk()
        group_commit = GroupCommit(performer.perform, timeout=30)
        assert asyncio.run(close_among_callers(group_commit, performer)) == sum(map(len, performer.batches))
