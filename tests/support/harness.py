"""A database with a broker on it and a clock that only the test moves. The ways to one are in OPENERS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import rowq
from rowq import Broker, ManualClock
from tests.support.blocking import BlockingBroker, LoopThread
from tests.support.database import KINDS, Database, new_database, run

if TYPE_CHECKING:
    from tests.support.server import Server

Opener = Callable[..., Broker]


class Harness:
    """What a contract test may touch: `broker`, `clock`, and the ways to open the same database again."""

    def __init__(self, database: Database, opener: Opener) -> None:
        self.database = database
        self.clock = ManualClock()
        self._opener = opener
        self._open: list[Broker] = []
        self.broker = self.open()

    @property
    def url(self) -> str:
        return self.database.url

    def open(self, **options: Any) -> Broker:
        """One more broker on the same database, closed with the harness."""
        broker = self._opener(self.url, clock=self.clock, maintenance=False, **options)
        self._open.append(broker)
        return broker

    def reopen(self, **options: Any) -> Broker:
        """Close every broker, as a process that ends, and open the database anew."""
        self.close()
        self.broker = self.open(**options)
        return self.broker

    def elsewhere(self) -> Harness:
        """A database of its own beside this one, opened the same way."""
        return Harness(self.database.elsewhere(), self._opener)

    def connection(self) -> Any:
        """The application's own connection to the database that the queue lives in."""
        connection = self.database.connection()
        run(connection, "CREATE TABLE IF NOT EXISTS orders (name TEXT)")
        run(connection, "DELETE FROM orders")
        connection.commit()
        return connection

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


class _Served:
    """A broker that asks a server of its own, which is stopped with it."""

    def __init__(self, server: Server, broker: Broker) -> None:
        self._server = server
        self._broker = broker

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._broker, verb)

    def close(self) -> None:
        self._broker.close()
        self._server.stop()


def _blocking(loop: LoopThread) -> Opener:
    return lambda url, **options: cast(Broker, BlockingBroker(loop, url, **options))


def _served(loop: LoopThread, connect: Opener) -> Opener:
    from tests.support.server import Server

    def open_one(url: str, **options: Any) -> Broker:
        server = Server(loop, url, **options)
        return cast(Broker, _Served(server, connect(server.url)))

    return open_one


OPENERS: dict[str, Callable[[LoopThread], Opener]] = {
    "sync": lambda loop: rowq.connect,
    "async": _blocking,
    "http-sync": lambda loop: _served(loop, rowq.connect),
    "http-async": lambda loop: _served(loop, _blocking(loop)),
}


def backends(ways: Iterable[str] = tuple(OPENERS)) -> list[list[str]]:
    """Kinds of databases, each with the ways to it: of each kind every test runs one in `make test`, which one depends on the test."""
    return [[f"{kind}-{way}" for way in ways] for kind in KINDS]


@contextmanager
def harness_for(backend: str, folder: Path, loop: LoopThread) -> Iterator[Harness]:
    kind, _, way = backend.partition("-")
    harness = Harness(new_database(kind, folder), OPENERS[way](loop))
    try:
        yield harness
    finally:
        harness.close()
