"""A receive whose caller leaves before it is answered: the messages that it was to get are for others, at once, and uncounted."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import rowq
from rowq import Broker, BrokerClosed
from rowq.client.async_connection import AsyncConnection
from rowq.client.connection import Connection
from tests.client.proxy import Mood, Proxy
from tests.server.support import read_answer, request
from tests.support.blocking import LoopThread
from tests.support.database import Database
from tests.support.life import depths
from tests.support.patience import eventually
from tests.support.server import Server

WAIT = 60
"""Seconds: a receive that does not end when it is called off is noticed."""


class Interrupted(BaseException):
    """Ctrl-C, in a test."""


@pytest.fixture
def server(database: Database, loop: LoopThread) -> Iterator[Server]:
    server = Server(loop, database.url)
    yield server
    server.stop()


@pytest.fixture
def other(server: Server) -> Iterator[Broker]:
    with rowq.connect(server.url) as broker:
        yield broker


def assert_untouched(broker: Broker, count: int) -> None:
    """A moment later at the latest: a caller that leaves does not wait until its messages are given back."""
    assert broker.stats("q").depth == count
    eventually(lambda: depths(broker) == {"ready": count})
    assert {message.attempts for message in broker.walk("q")} == {0}


async def moment(seconds: float) -> None:
    """For other tasks."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


def test_cancelled_at_any_moment_it_leaves_nothing_leased(server: Server, other: Broker) -> None:
    choose, taken = random.Random("moments"), list[str]()

    async def main() -> None:
        async with rowq.connect_async(server.url) as broker:
            for number in range(120):
                waiting = asyncio.create_task(broker.receive("q", wait=WAIT, lease=600))
                await moment(choose.random() * 0.003)
                sending = asyncio.create_task(broker.send("q", number))
                await moment(choose.random() * 0.006)
                waiting.cancel()
                (answer,) = await asyncio.gather(waiting, return_exceptions=True)
                if isinstance(answer, list):
                    taken.extend(delivery.receipt for delivery in answer)
                await sending

    asyncio.run(main())
    other.ack_many(taken)
    assert_untouched(other, 120 - len(taken))


def test_a_timeout_of_the_callers_own_takes_nothing_along(server: Server, other: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is there, and is overtaken by the cancellation."""
    answered = AsyncConnection._await

    async def cancelled(connection: AsyncConnection, seconds: float) -> Any:
        monkeypatch.undo()
        await answered(connection, seconds)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def main() -> None:
        async with rowq.connect_async(server.url) as broker:
            await broker.send_many("q", range(5))
            monkeypatch.setattr(AsyncConnection, "_await", cancelled)
            with pytest.raises(asyncio.CancelledError):
                await broker.receive("q", max=3, lease=600)
            assert_untouched(other, 5)
            assert len(await broker.receive("q", max=3)) == 3

    asyncio.run(main())


def test_interrupted_in_a_thread_it_takes_nothing_along(server: Server, other: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Connection._await

    def interrupted(connection: Connection, until: float) -> Any:
        monkeypatch.undo()
        answered(connection, until)
        raise Interrupted

    other.send_many("q", range(5))
    with rowq.connect(server.url) as broker:
        broker.stats("q")
        monkeypatch.setattr(Connection, "_await", interrupted)
        with pytest.raises(Interrupted):
            broker.receive("q", max=3, lease=600)
        assert_untouched(other, 5)
        assert len(broker.receive("q", max=3)) == 3


def test_closing_the_broker_ends_its_waits_and_takes_nothing_along(server: Server, other: Broker) -> None:
    async def main() -> None:
        broker = rowq.connect_async(server.url)
        async with broker:
            waiting = [asyncio.create_task(broker.receive("q", wait=WAIT, lease=600)) for _ in range(10)]
            await asyncio.sleep(0)
            await broker.queues()
            sending = asyncio.create_task(asyncio.to_thread(other.send_many, "q", range(10)))
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        await sending
        taken = [delivery for end in ends if isinstance(end, list) for delivery in end]
        assert {type(end) for end in ends} <= {list, BrokerClosed}
        other.ack_many(taken)
        assert_untouched(other, 10 - len(taken))

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < WAIT / 2


def test_closing_the_broker_ends_the_waits_of_threads(server: Server, other: Broker) -> None:
    broker = rowq.connect(server.url)
    ends: list[object] = []

    def wait() -> None:
        try:
            ends.append(broker.receive("q", wait=WAIT, lease=600))
        except BrokerClosed as error:
            ends.append(error)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    eventually(lambda: sum(connection.is_waiting for connection in broker._engine.driver._pool._in_use) == 5)  # type: ignore[attr-defined]
    broker.close()
    for thread in threads:
        thread.join()
    assert time.monotonic() - started < WAIT / 2
    assert [type(end) for end in ends] == [BrokerClosed] * 5
    other.send("q", "for others")
    assert_untouched(other, 1)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_behind_a_proxy_that_says_nothing_the_caller_does_not_wait_for_long(server: Server, other: Broker) -> None:
    proxy = Proxy(server.port)
    proxy.moods.append(Mood.SILENT)

    async def main() -> None:
        async with rowq.connect_async(proxy.url) as broker:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(broker.receive("q", wait=WAIT), 0.1)

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < WAIT / 2
    proxy.close()


def test_an_answer_that_lies_in_the_socket_is_read_although_its_caller_has_left(server: Server, other: Broker) -> None:
    """The event loop is busy for a moment, in which the answer comes; then the receive is cancelled."""

    async def main() -> None:
        async with rowq.connect_async(server.url) as broker:
            waiting = asyncio.create_task(broker.receive("q", wait=WAIT, lease=600))
            await broker.queues()
            other.send("q", 1)
            eventually(lambda: other.stats("q").leased == 1)  # the loop stands still meanwhile
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            eventually(lambda: other.stats("q").ready == 1)

    asyncio.run(main())
    assert_untouched(other, 1)


def test_an_interrupt_before_the_question_gives_nothing_back(server: Server, other: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that was read before is not the answer to the question that was not asked."""

    def interrupted(connection: Connection, request: bytes, seconds: float) -> Any:
        raise Interrupted

    other.send_many("q", range(3))
    with rowq.connect(server.url) as broker:
        (delivery,) = broker.receive("q", lease=600)
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "_write", interrupted)
            with pytest.raises(Interrupted):
                broker.receive("q", lease=600)
        broker.ack(delivery)
    assert_untouched(other, 2)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("line", [b"\r\n", b"\r\n\r\n"])
@pytest.mark.parametrize("way", ["with the request", "after it"])
def test_an_empty_line_ends_a_wait(server: Server, line: bytes, way: str) -> None:
    body = b'{"wait_ms": 60000}'
    asked = request("POST", "/v1/queues/q/deliveries", f"Content-Length: {len(body)}", body=body)
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
        connection.sendall(asked + (line if way == "with the request" else b""))
        if way == "after it":
            eventually(lambda: server.service.engine.waiting == 1)
            connection.sendall(line)
        assert read_answer(connection).json == {"deliveries": []}
        connection.sendall(request("GET", "/v1/queues"))
        assert read_answer(connection).json == {"queues": []}
    assert time.monotonic() - started < WAIT / 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_body_that_ends_in_an_empty_line_waits(server: Server, other: Broker) -> None:
    body = b'{"wait_ms": 60000}\r\n'
    asked = request("POST", "/v1/queues/q/deliveries", f"Content-Length: {len(body)}", body=body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
        connection.sendall(asked)
        eventually(lambda: server.service.engine.waiting == 1)
        other.send("q", "x")
        assert [delivery["payload"] for delivery in read_answer(connection).json["deliveries"]] == ["x"]
