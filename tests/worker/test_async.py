"""Producers and consumers in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rowq
from rowq import AsyncBroker, Delivery, PayloadTooLarge
from tests.support.database import Database
from tests.support.patience import eventually, eventually_async
from tests.support.server import Server
from tests.worker.moving import MovingClock

LEASE, FOR_EVER = 600, 3_600


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[AsyncBroker]:
    """What was processed stays readable."""
    async with asyncio.timeout(60), rowq.connect_async(url, **options) as broker:
        await broker.configure("q", keep="outcome")
        yield broker


async def finished(broker: AsyncBroker, count: int) -> None:
    while (await broker.stats("q")).finished < count:
        pass


async def send(broker: AsyncBroker, count: int) -> list[str]:
    async with broker.producer("q", batch_size=10) as producer:
        pushed = [await producer.push(number) for number in range(count)]
    return [await one for one in pushed]


def test_a_producer_gathers_and_sends(database: Database) -> None:
    async def scene() -> None:
        async with connected(database.url) as broker:
            first = await broker.producer("q").push("first", deadline=60)
            assert (await broker.get(await first)).payload == "first"
            async with broker.producer("q", batch_size=10, linger=FOR_EVER) as producer:
                pushed = [await producer.push(number) for number in range(105)]
                assert await pushed[0]
                assert not pushed[-1].done()
            assert len({await one for one in pushed}) == 105
            assert (await broker.stats("q")).ready == 106

    asyncio.run(scene())


def test_what_is_refused_is_told(file_url: str) -> None:
    async def scene() -> None:
        async with connected(file_url) as broker:
            await broker.configure("q", max_payload_bytes=100)
            with pytest.raises(PayloadTooLarge):
                _ = await broker.producer("q").push("x" * 500)
            producer = broker.producer("q", batch_size=10, linger=FOR_EVER)
            bad, good = await producer.push("x" * 500), await producer.push("x")
            with pytest.raises(PayloadTooLarge):
                await producer.flush()
            with pytest.raises(PayloadTooLarge):
                await bad
            assert (await broker.get(await good)).payload == "x"

    asyncio.run(scene())


def test_messages_are_handled_in_tasks(database: Database) -> None:
    async def scene() -> None:
        async with connected(database.url) as broker:
            ids = await send(broker, 24)
            together = asyncio.Barrier(8)
            threads: set[threading.Thread] = set()

            async def handle(delivery: Delivery) -> None:
                threads.add(threading.current_thread())
                await together.wait()

            async with broker.consumer("q", handle, concurrency=8, batch_size=5):
                await finished(broker, 24)
            assert threads == {threading.current_thread()}
            assert {(await broker.get(id)).outcome for id in ids} == {"acked"}
            assert await broker.consumers("q") == []

    asyncio.run(scene())


def test_a_function_that_blocks_runs_in_a_thread(file_url: str) -> None:
    async def scene() -> None:
        async with connected(file_url) as broker:
            await send(broker, 40)
            together = threading.Barrier(20)
            async with broker.consumer("q", lambda delivery: together.wait(20), concurrency=20):
                await finished(broker, 40)

    asyncio.run(scene())


def test_what_fails_comes_back_and_what_is_lost_is_told(server: Server, clock: MovingClock) -> None:
    async def scene() -> None:
        async with connected(server.url) as broker:
            told = asyncio.Event()

            async def handle(delivery: Delivery) -> None:
                if delivery.attempt < 3:
                    raise ValueError(delivery.attempt)
                await broker.delete(delivery.id)
                clock.advance(LEASE * 0.4)
                await eventually_async(lambda: consumer.is_lost(delivery))
                told.set()

            (id,) = await send(broker, 1)
            consumer = broker.consumer("q", handle, lease=LEASE, beat=0.1, dead_after=FOR_EVER, retry=0.02)
            async with consumer:
                await told.wait()
            assert [event.event for event in await broker.audit(id)].count("nacked") == 2

    asyncio.run(scene())


def test_a_lease_is_kept_although_the_function_blocks_the_loop(file_url: str, clock: MovingClock) -> None:
    def extensions(id: str) -> int:
        with rowq.connect(file_url, maintenance=False) as other:
            return [event.event for event in other.audit(id)].count("extended")

    async def scene() -> None:
        async with connected(file_url, clock=clock) as broker:
            (id,) = await send(broker, 1)
            attempts: list[int] = []

            async def block(delivery: Delivery) -> None:
                attempts.append(delivery.attempt)
                for times in range(1, 4):
                    clock.advance(LEASE * 0.4)
                    eventually(lambda: extensions(id) >= times)  # noqa: B023  # called at once

            async with broker.consumer("q", block, lease=LEASE, beat=0.1, dead_after=FOR_EVER):
                await finished(broker, 1)
            assert attempts == [1]

    asyncio.run(scene())


def test_cancelling_a_run_finishes_what_is_begun(file_url: str) -> None:
    async def scene() -> None:
        async with connected(file_url) as broker:
            ids = await send(broker, 5)
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def handle(delivery: Delivery) -> None:
                begun.set()
                await go_on.wait()

            running = asyncio.create_task(broker.consumer("q", handle, batch_size=5).run())
            await begun.wait()
            running.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            messages = [await broker.get(id) for id in ids]
            assert [message.outcome for message in messages] == ["acked", None, None, None, None]
            assert [message.attempts for message in messages[1:]] == [0] * 4

    asyncio.run(scene())


@pytest.mark.parametrize("odd", [SystemExit, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("is_coroutine", [False, True])
def test_whatever_the_function_raises_concerns_its_message_alone(file_url: str, odd: type[BaseException], is_coroutine: bool) -> None:
    def raise_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise odd

    async def await_and_raise(delivery: Delivery) -> None:
        raise_once(delivery)

    async def scene() -> None:
        async with connected(file_url) as broker:
            await send(broker, 2)
            async with broker.consumer("q", await_and_raise if is_coroutine else raise_once, retry=0.02):
                await finished(broker, 2)

    asyncio.run(scene())


def test_a_consumer_whose_task_is_cancelled_does_not_end_without_a_word(file_url: str) -> None:
    async def cancel_itself(delivery: Delivery) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async def scene() -> None:
        async with connected(file_url) as broker:
            await send(broker, 1)
            with pytest.raises(asyncio.CancelledError):
                await broker.consumer("q", cancel_itself, concurrency=3).run()

    asyncio.run(scene())
