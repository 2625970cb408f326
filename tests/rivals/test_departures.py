"""Coroutines that go away at the worst moment, or whose broker does: nothing is lost, and nobody is left waiting."""

from __future__ import annotations

import asyncio
from collections import Counter

import rowq
from rowq import BrokerClosed, Delivery


def test_receivers_with_a_timeout_of_their_own_lose_nothing(url: str) -> None:
    """`asyncio.wait_for` cancels, often in the very turn in which the answer comes. One of them is patient, so that it ends."""

    async def main() -> None:
        async with rowq.connect_async(url) as broker:
            taken: list[Delivery] = []

            async def take(patience: float) -> None:
                while len(taken) < 300:
                    try:
                        taken.extend(await asyncio.wait_for(broker.receive("q", wait=1, lease=600), patience))
                    except TimeoutError:
                        continue

            takers = [asyncio.create_task(take(patience)) for patience in (*(0.001 * number for number in range(1, 20)), 60)]
            for number in range(300):
                await broker.send("q", number)
            await asyncio.wait_for(asyncio.gather(*takers), 100)
            assert Counter(delivery.payload for delivery in taken) == Counter(range(300))

    asyncio.run(main())


def test_closing_ends_those_who_wait(url: str) -> None:
    async def main() -> None:
        broker = rowq.connect_async(url)
        async with broker:
            await broker.send("other", "x")
            waiting = [asyncio.create_task(broker.receive("q", wait=60)) for _ in range(50)]
            await broker.stats("other")
        ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert {type(end) for end in ends} == {BrokerClosed}

    asyncio.run(main())


def test_closing_right_after_cancelling_is_quiet_and_keeps_everything(url: str) -> None:
    """What a cancelled receiver was given is released, or comes back with its lease; no thread ends with an error."""

    async def main() -> None:
        async with rowq.connect_async(url, maintenance=False) as broker:
            await broker.send_many("q", range(20))
            tasks = [asyncio.create_task(broker.receive("q", max=2, lease=600)) for _ in range(10)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    for _ in range(10):
        asyncio.run(main())
    with rowq.connect(url, maintenance=False) as broker:
        assert broker.stats("q").depth == 200
