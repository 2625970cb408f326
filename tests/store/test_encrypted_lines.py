"""Lines to PostgreSQL that are encrypted: what is decrypted already makes no socket readable."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import pq

import rowq
from rowq.engine.async_group_commit import AsyncGroupCommit
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call
from rowq.store.postgresql import pipeline
from rowq.store.postgresql.pipeline import Pipeline
from tests.engine.jobs import Job
from tests.support.background import Background
from tests.support.servers import PostgresqlServer, fresh, shared_postgresql
from tests.support.way import CuttableWay

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"


class Wire:
    """A libpq that takes one piece of a decrypted record at a time. All records arrive together, each as one byte."""

    nonblocking = 0
    ssl_in_use = True
    status = pq.ConnStatus.OK

    def __init__(self, records: int, pieces: int) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self.socket = self._near.fileno()
        self._records, self._pieces = records, pieces
        self._decrypted = self._taken = 0

    def enter_pipeline_mode(self) -> None: ...

    def pipeline_sync(self) -> None:
        self._far.send(b"r" * self._records)

    def flush(self) -> int:
        return 0

    def is_busy(self) -> bool:
        return self._taken < self._records * self._pieces

    def consume_input(self) -> None:
        if not self._decrypted:
            with suppress(BlockingIOError):
                self._near.recv(1)
                self._decrypted = self._pieces
        if self._decrypted:
            self._decrypted -= 1
            self._taken += 1

    def get_result(self) -> Any:
        return SimpleNamespace(status=pq.ExecStatus.PIPELINE_SYNC)

    def close(self) -> None:
        self._near.close()
        self._far.close()


@pytest.fixture(params=[(1, 1), (1, 2), (3, 2)], ids=["whole", "in halves", "three in halves"])
def line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """Whoever waits for the socket once too often waits for longer than the test."""
    monkeypatch.setattr(pipeline, "_PATIENCE_MS", 60_000)
    wire: Any = Wire(*request.param)
    raw: Any = SimpleNamespace(pgconn=wire, adapters=psycopg.adapters, connection=None, close=lambda: None)
    yield Pipeline(raw, prepares=False)
    wire.close()


def test_a_thread_takes_all_that_is_decrypted(line: Pipeline) -> None:
    Background(line.sync).result()


def test_a_greenlet_bridge_takes_all_that_is_decrypted(line: Pipeline) -> None:
    def perform(calls: Sequence[Call[Any]]) -> None:
        line.sync()
        calls[0].result = "done"

    slow = GroupCommit(perform, timeout=30)
    async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
    assert asyncio.run(asyncio.wait_for(async_group_commit.run_async(Job("mine")), 10)) == "done"
    slow.close(lambda: None)


class EncryptedWay(CuttableWay):
    """Ends the encryption before the server, and gives answers back in records that are as large as they can be."""

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        with suppress(OSError, ValueError):  # a socket that is closed meanwhile has no number to wait for
            client.recv(8)  # whether we can
            client.sendall(b"S")
            secure = context.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self._target))
            self._ends |= {secure, server}
            with server, secure:
                while _pass_on(secure, server):
                    pass


def _pass_on(secure: ssl.SSLSocket, server: socket.socket) -> bool:
    ready = [secure] if secure.pending() else select.select([secure, server], [], [])[0]
    if secure in ready:
        asked = secure.recv(1 << 16)
        server.sendall(asked)
        return bool(asked)
    answer = server.recv(1 << 16)
    while answer and select.select([server], [], [], 0.002)[0] and (more := server.recv(1 << 16)):
        answer += more
    secure.sendall(answer)
    return bool(answer)


def test_answers_of_all_sizes_arrive_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_PATIENCE_MS", 60_000)
    server = shared_postgresql()
    if not isinstance(server, PostgresqlServer):
        pytest.skip("a server of one's own may be encrypted already")
    database = fresh(server).partition("?")[0].rpartition("/")[2]

    async def main(url: str) -> None:
        async with rowq.connect_async(url, maintenance=False) as broker:
            for number in range(40):
                payloads = ["x" * (4_000 + 101 * number)] * (4 + number % 5)
                await broker.send_many("q", payloads)
                taken = await asyncio.wait_for(broker.receive("q", max=20), 10)
                assert [delivery.payload for delivery in taken] == payloads
                await broker.ack_many(taken)

    with EncryptedWay(server.port) as way:
        asyncio.run(main(f"{server.tcp_url(database).replace(f':{server.port}/', f':{way.port}/')}?sslmode=require"))
