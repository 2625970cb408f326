"""Many coroutines on one broker, and those among them that are cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import rowq
from tests.rivals.inside import are_receives_under_way
from tests.support.patience import eventually_async

MANY = 300


@pytest.fixture
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that waits looks once a second, woken or not: without that, a lost wake-up is a message that is not delivered."""
    monkeypatch.setattr("rowq.engine.waiting.SAFETY", float("inf"))


async def handle(broker: rowq.AsyncBroker) -> str:
    (delivery,) = await broker.receive("q", wait=60)
    await broker.ack(delivery)
    return delivery.id


def test_three_hundred_coroutines_send_and_receive_each_message_once(url: str) -> None:
    async def run() -> None:
        async with rowq.connect_async(url) as broker:
            sends = [broker.send("q", number) for number in range(MANY)]
            answers = await asyncio.wait_for(asyncio.gather(*sends, *(handle(broker) for _ in range(MANY))), 100)
            assert Counter(answers[:MANY]) == Counter(answers[MANY:])
            assert len(set(answers)) == MANY
            assert (await broker.stats("q")).depth == 0
            assert broker._engine()._room.count() == 0

    asyncio.run(run())


def test_what_cancelled_receivers_had_got_goes_to_others_at_once(url: str) -> None:
    """The lease is an hour: only a release brings the messages back within the deadline."""

    async def run() -> None:
        async with rowq.connect_async(url) as broker:
            await broker.configure("q", lease=3600)
            sent = await broker.send_many("q", range(MANY))
            kept: list[str] = []
            for turns in range(MANY):
                receiver = asyncio.create_task(broker.receive("q"))
                for _ in range(turns % 7):
                    await asyncio.sleep(0)
                receiver.cancel()
                kept += await _got(receiver)
            assert len(kept) < MANY
            others = await asyncio.wait_for(asyncio.gather(*(handle(broker) for _ in range(MANY - len(kept)))), 100)
            assert Counter(kept + others) == Counter(sent)

    asyncio.run(run())


def test_a_receiver_cancelled_while_its_lease_is_being_written_keeps_nothing(url: str) -> None:
    async def run() -> None:
        async with rowq.connect_async(url) as broker:
            await broker.configure("q", lease=3600)
            sent = await broker.send_many("q", range(MANY))
            receivers = [asyncio.create_task(broker.receive("q", max=3)) for _ in range(MANY // 3)]
            while not are_receives_under_way(broker._engine()):  # noqa: ASYNC110  # it may last for no more than a turn of the loop
                await asyncio.sleep(0)
            for receiver in receivers:
                receiver.cancel()
            kept = [id for receiver in receivers for id in await _got(receiver)]
            others = await asyncio.wait_for(asyncio.gather(*(handle(broker) for _ in range(MANY - len(kept)))), 100)
            assert Counter(kept + others) == Counter(sent)

    asyncio.run(run())


def test_waiting_receivers_that_are_cancelled_leave_nothing_behind(url: str, nobody_looks_again: None) -> None:
    async def run() -> None:
        async with rowq.connect_async(url) as broker:
            room = broker._engine()._room
            receivers = [asyncio.create_task(broker.receive("q", wait=60)) for _ in range(MANY)]
            await eventually_async(lambda: room.count() == MANY)
            for receiver in receivers[1:]:
                receiver.cancel()
            await asyncio.gather(*receivers[1:], return_exceptions=True)
            assert all(receiver.cancelled() for receiver in receivers[1:])
            assert room.count() <= 1
            id = await broker.send("q", "for the one who stayed")
            (delivery,) = await asyncio.wait_for(receivers[0], 60)
            assert delivery.id == id
            assert room.count() == 0
            assert (await broker.stats("q")).leased == 1

    asyncio.run(run())


def test_a_wake_up_is_not_lost_with_the_receiver_that_was_cancelled(url: str, nobody_looks_again: None) -> None:
    """Sent and cancelled in the same turn: whoever was woken is gone, and the next in line must hear of it."""

    async def run() -> None:
        async with rowq.connect_async(url) as broker:
            await broker.configure("q", lease=3600)
            for _ in range(20):
                receivers = [asyncio.create_task(handle(broker)) for _ in range(10)]
                await eventually_async(lambda: broker._engine()._room.count() == 10)
                sends = asyncio.gather(*(broker.send("q", number) for number in range(5)))
                for receiver in receivers[:5]:
                    receiver.cancel()
                sent = await sends
                assert Counter(await asyncio.wait_for(asyncio.gather(*receivers[5:]), 30)) == Counter(sent)

    asyncio.run(run())


async def _got(receiver: asyncio.Task[list[rowq.Delivery]]) -> list[str]:
    """What a receiver got that was cancelled, maybe too late."""
    try:
        return [delivery.id for delivery in await receiver]
    except asyncio.CancelledError:
        return []
