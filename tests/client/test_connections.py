"""Connections: kept and used again, replaced when the server has hung up, never shared by two threads or by two processes."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rowq
from rowq import Broker, BrokerClosed, Delivery, LeaseLost, ServerUnavailable
from tests.client.conftest import LONG, Connect
from tests.client.proxy import Proxy
from tests.support.background import Background
from tests.support.blocking import LoopThread
from tests.support.crowd import together
from tests.support.life import bury, depths, drain, take
from tests.support.patience import eventually, eventually_async
from tests.support.server import Server

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"
"""Signed by itself, and of no use but for these tests."""

FOR_EVER = 600.0
"""Longer than a test may take: who tries again until this is over is noticed."""

SHARED = 64
"""So many connections do coroutines share at most, as the guide says."""


def test_one_connection_serves_many_questions(broker: Broker, proxy: Proxy) -> None:
    for number in range(20):
        broker.send("q", number)
    assert broker.stats("q").ready == 20
    assert proxy.accepted == 1


def test_threads_do_not_share_a_connection(broker: Broker, proxy: Proxy) -> None:
    waiting = [Background(lambda: broker.receive("q", wait=LONG)) for _ in range(3)]
    eventually(lambda: len(proxy.questions) == 3)
    assert proxy.accepted == 3
    broker.send_many("q", [1, 2, 3])
    assert sorted(each.result(LONG)[0].payload for each in waiting) == [1, 2, 3]


def test_a_connection_that_the_server_closed_while_idle_is_replaced_unnoticed(broker: Broker, proxy: Proxy) -> None:
    delivery = _sent_and_taken(broker)
    proxy.hang_up()
    broker.ack(delivery)
    proxy.hang_up()
    with pytest.raises(LeaseLost):
        broker.ack(delivery)
    bury(broker)
    proxy.hang_up()
    assert broker.redrive("q") == 1


def test_a_server_that_hangs_up_again_and_again_is_not_noticed(connect: Connect, server: Server) -> None:
    broker = connect(server.url)
    for number in range(10):
        broker.send("q", number)
        server.hang_up()
    assert drain(broker) == list(range(10))


def test_idle_connections_are_closed_with_the_broker(connect: Connect, server: Server) -> None:
    broker = connect(server.url)
    broker.queues()
    assert server.connections == 1
    broker.close()
    eventually(lambda: server.connections == 0)


def test_a_closed_broker_asks_nothing(broker: Broker, proxy: Proxy) -> None:
    broker.close()
    with pytest.raises(BrokerClosed):
        broker.queues()
    assert proxy.questions == []


def test_many_threads_may_use_one_broker(server: Server) -> None:
    def work(number: int) -> list[int]:
        for each in range(25):
            broker.send("q", number * 100 + each)
        done = []
        while deliveries := broker.receive("q", max=3):
            done += [delivery.payload for delivery in deliveries]
            broker.ack_many(deliveries)
        return done

    with rowq.connect(server.url) as broker:
        done = together(*(lambda number=number: work(number) for number in range(8)))
        done.append(drain(broker))
    assert sorted(payload for each in done for payload in each) == sorted(n * 100 + e for n in range(8) for e in range(25))


def test_a_crowd_of_coroutines_shares_a_few_connections(server: Server) -> None:
    async def send(broker: rowq.AsyncBroker, number: int) -> tuple[str, int]:
        return await broker.send("q", number), server.connections

    async def send_all() -> list[tuple[str, int]]:
        async with rowq.connect_async(server.url) as broker:
            return await asyncio.gather(*(send(broker, number) for number in range(300)))

    ids, connections = zip(*asyncio.run(send_all()), strict=True)
    assert len(set(ids)) == 300
    assert 1 < max(connections) <= 2 * SHARED  # the server may not have noticed yet which of them were replaced
    eventually(lambda: server.connections == 0)


def test_a_broker_serves_several_event_loops(server: Server) -> None:
    broker = rowq.connect_async(server.url)

    async def ask() -> int:
        return (await broker.stats("q")).ready

    async def begin() -> None:
        await broker.__aenter__()
        await broker.send("q", "x")

    with ExitStack() as loops:
        first, second = LoopThread(), LoopThread()
        loops.callback(first.stop)
        loops.callback(second.stop)
        first.run(begin())
        assert second.run(ask()) == first.run(ask()) == 1
        first.run(broker.close())
        eventually(lambda: server.connections == 0)


def test_a_cancelled_wait_keeps_its_connection_and_takes_nothing(server: Server) -> None:
    async def cancel() -> list[Delivery]:
        async with rowq.connect_async(server.url) as broker:
            waiting = asyncio.create_task(broker.receive("q", wait=30))
            await eventually_async(lambda: server.connections == 1)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            await broker.send("q", "x")
            assert server.connections == 1
            return await broker.receive("q", wait=5)

    (delivery,) = asyncio.run(cancel())
    assert (delivery.payload, delivery.attempt) == ("x", 1)


def test_a_walk_that_is_left_closes_its_connection(server: Server) -> None:
    with rowq.connect(server.url) as broker:
        for _ in range(3):
            broker.send_many("q", ["x" * 10_000] * 1_000)
        walk = broker.walk("q")
        next(walk)
        broker.queues()
        assert server.connections == 2
        walk.close()  # type: ignore[attr-defined]  # an iterator that is a generator
        eventually(lambda: server.connections == 1)
        assert sum(1 for _ in broker.walk("q")) == 3_000


def test_a_walk_that_is_cut_is_no_whole_walk(server: Server) -> None:
    with rowq.connect(server.url) as broker:
        for _ in range(3):
            broker.send_many("q", ["x" * 10_000] * 1_000)
        walk = broker.walk("q")
        next(walk)
        server.hang_up()
        with pytest.raises(ServerUnavailable):
            list(walk)


FORKING = """
import os, sys
import rowq

with rowq.connect(sys.argv[1]) as broker:
    broker.send("q", "parent")
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    broker.send("q", "child")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_asks_over_connections_of_its_own(proxy: Proxy) -> None:
    """In a program of its own: a child of this process, which has many threads, may inherit a lock that one of them holds."""
    subprocess.run([sys.executable, "-c", FORKING, proxy.url], check=True)
    assert proxy.accepted == 2
    with rowq.connect(proxy.url) as broker:
        assert drain(broker) == ["parent", "child"]


@pytest.fixture
def secured(loop: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    server = Server(loop, f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False, tls=context)
    yield server
    server.stop()


def test_https_is_spoken(secured: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    broker = connect(secured.url)
    delivery = _sent_and_taken(broker)
    secured.hang_up()
    broker.ack(delivery)
    assert depths(broker) == {}


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(secured: Server, connect: Connect) -> None:
    with pytest.raises(ServerUnavailable, match=r"certificate is not trusted \(self-signed certificate\); SSL_CERT_FILE"):
        connect(secured.url, timeout=FOR_EVER).queues()


def test_https_to_a_server_that_has_none_is_refused_at_once(server: Server, connect: Connect) -> None:
    with pytest.raises(ServerUnavailable, match="does not speak https there; is its address http://"):
        connect(server.url.replace("http://", "https://"), timeout=FOR_EVER).queues()


def _sent_and_taken(broker: Broker) -> Delivery:
    broker.send("q", "x")
    return take(broker)
