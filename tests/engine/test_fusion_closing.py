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
from rowq.engine.group_commit import Fusion
from rowq.store.call import Call
from tests.engine.jobs import Desk, Job
from tests.support.crowd import Crowd

ROUNDS = 60


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that the narrow moments are met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


class ClosingDesk(Desk):
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

    def call_until_refused(fusion: Fusion) -> int:
        answered = 0
        try:
            while True:
                assert fusion.run(Job("x")) == "x"
                answered += 1
        except BrokerClosed:
            return answered

    for _ in range(ROUNDS):
        desk = ClosingDesk()
        fusion = Fusion(desk.perform, timeout=30)
        callers = Crowd([lambda fusion=fusion: call_until_refused(fusion) for _ in range(6)])  # type: ignore[misc]
        threading.Event().wait(chance.uniform(0, 0.004))
        fusion.close(desk.close)
        assert sum(callers.results(10)) == sum(map(len, desk.batches))


def test_coroutines_are_answered_or_refused() -> None:
    chance = random.Random(2)

    async def call_until_refused(fusion: Fusion) -> int:
        answered = 0
        try:
            while True:
                assert await fusion.run_async(Job("x")) == "x"
                answered += 1
        except BrokerClosed:
            return answered

    async def close_among_callers(fusion: Fusion, desk: ClosingDesk) -> int:
        callers = asyncio.gather(*(call_until_refused(fusion) for _ in range(20)))
        closing = threading.Timer(chance.uniform(0, 0.008), fusion.close, (desk.close,))
        closing.start()
        answered = sum(await asyncio.wait_for(callers, 10))
        await asyncio.to_thread(closing.join)
        return answered

    for _ in range(ROUNDS):
        desk = ClosingDesk()
        fusion = Fusion(desk.perform, timeout=30)
        assert asyncio.run(close_among_callers(fusion, desk)) == sum(map(len, desk.batches))
