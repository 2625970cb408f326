"""A server, a proxy before it that can be spoiled, and brokers that ask through the proxy: for threads, and for event loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

import rowq
from rowq import Broker
from rowq.client import retrying
from tests.client.proxy import Proxy
from tests.support.blocking import BlockingBroker, LoopThread
from tests.support.server import Server

Connect = Callable[..., Broker]

HOUR = 3_600
"""Seconds: longer than any test."""
LONG = 60.0
"""Seconds that a broker may take for a call which is to succeed, on a machine that is busy."""


@pytest.fixture
def server(loop: LoopThread, tmp_path: Path) -> Iterator[Server]:
    server = Server(loop, f"sqlite:///{tmp_path / 'jobs.db'}", maintenance=False)
    server._config.timeout_keep_alive = HOUR  # a connection that is closed was closed by the client, or by the test
    yield server
    server.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, loop: LoopThread) -> Iterator[Connect]:
    """Opens a broker of either kind; all are closed in the end."""
    opened: list[Broker] = []

    def open_one(url: str, **options: object) -> Broker:
        broker = rowq.connect(url, **options) if request.param == "sync" else cast(Broker, BlockingBroker(loop, url, **options))  # type: ignore[arg-type]
        opened.append(broker)
        return broker

    yield open_one
    for broker in opened:
        broker.close()


@pytest.fixture
def broker(connect: Connect, proxy: Proxy) -> Broker:
    return connect(proxy.url, timeout=LONG)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause before a second try is longer than any timeout: a broker gives up after its first try, however long that took."""
    monkeypatch.setattr(retrying, "FIRST_PAUSE", HOUR)
    monkeypatch.setattr(retrying, "LONGEST_PAUSE", HOUR)


@pytest.fixture
def direct(server: Server) -> Iterator[Broker]:
    """Past the proxy: what is really in the queue."""
    with rowq.connect(server.url) as broker:
        yield broker
