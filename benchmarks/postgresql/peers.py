"""The peers on PostgreSQL, procrastinate and pgqueuer: their own workers, on tasks that do nothing, as their documents advise.

The jobs of a turn are sent beforehand, and several processes work them off. Starting the workers counts, and is little beside a turn; what
is counted ends when they have written down that the last job is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

import uvloop

from benchmarks.harness import Gauge, Turns
from benchmarks.payload import body, payload
from benchmarks.postgresql.status_column import settle
from benchmarks.scale import Scale
from benchmarks.servers import Host
from benchmarks.together import Processes, Turning, shares

_QUEUE = "bench"
_AT_ONCE = 1_000
_GLANCE_SECONDS = 0.01

Peer = Callable[[Host, Scale, Gauge, Path], Turns]


class _Session(Protocol):
    """A peer's connections, of one process."""

    async def install(self) -> None: ...

    async def fill(self, jobs: int) -> None: ...

    async def work(self, batch: int, tally: _Tally, /) -> None:
        """Returns when all jobs of the turn are done, also those that other processes took."""

    async def left(self) -> int: ...


class _Kind(NamedTuple):
    packages: tuple[str, ...]
    open: Callable[[str, int], AbstractAsyncContextManager[_Session]]
    slower: int
    """It does so many times fewer jobs in a turn."""


class _Tally:
    """What all processes have done, as a file that each adds a byte to: pgqueuer's workers do not know when the others have finished."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.goal = 0
        self.own = 0

    def add(self) -> None:
        self.own += 1
        os.write(self._file, b".")

    async def wait(self) -> None:
        while os.fstat(self._file).st_size < self.goal:  # noqa: ASYNC110  # other processes set no event here
            await asyncio.sleep(_GLANCE_SECONDS)


def present() -> dict[str, Peer]:
    """Those that are installed."""
    return {name: partial(_turns, name) for name, kind in ALL.items() if all(find_spec(package) for package in kind.packages)}


def _turns(name: str, host: Host, scale: Scale, gauge: Gauge, room: Path) -> Turns:
    kind = ALL[name]
    jobs = max(1, scale.jobs // kind.slower)
    with host.database() as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        opened = kind.open(url, 1)
        session = loop.run(opened.__aenter__())
        try:
            loop.run(session.install())
            parts = [(name, url, str(room / "tally"), share, scale.batch) for share in shares(scale.connections, scale.processes)]
            with Processes(f"{__name__}:workers", parts) as processes:
                for turn in range(1, 2 + scale.consumer_turns):
                    loop.run(session.fill(jobs))
                    settle(url)
                    taken = host.turn(gauge, partial(processes.turn, jobs * turn))
                    left = loop.run(session.left())
                    assert (taken[gauge].messages, left) == (jobs, 0), f"{name} left {left} of {jobs} jobs"
                    if turn > 1:  # the first was for warming up
                        yield taken
        finally:
            loop.run(opened.__aexit__(None, None, None))


@asynccontextmanager
async def workers(name: str, url: str, tally_file: str, connections: int, batch: int) -> AsyncIterator[Turning]:
    for noisy in ALL:
        logging.getLogger(noisy).setLevel(logging.ERROR)
    tally = _Tally(Path(tally_file))
    async with ALL[name].open(url, connections) as session:

        async def turn(goal: float) -> int:
            """Until so many jobs have been done since the beginning."""
            tally.goal, tally.own = int(goal), 0
            await session.work(batch, tally)
            return tally.own

        yield turn


class _Pgqueuer:
    """A manager and an asyncpg connection each, large batches, its own settings for autovacuum."""

    def __init__(self, connections: list[Any]) -> None:
        self._connections = connections

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, count: int) -> AsyncIterator[_Session]:
        import asyncpg

        plain, socket = url.partition("?")[0], dict(parse_qsl(urlsplit(url).query)).get("host")
        connections = [await asyncpg.connect(plain, host=socket, port=urlsplit(url).port) for _ in range(count)]
        yield cls(connections)
        for connection in connections:
            await connection.close()

    def _queries(self) -> list[Any]:
        """Anew for each turn: a driver is not used again when its manager has ended."""
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        return [Queries(AsyncpgDriver(connection)) for connection in self._connections]

    async def install(self) -> None:
        (queries,) = self._queries()
        await queries.install()
        await queries.optimize_autovacuum()

    async def fill(self, jobs: int) -> None:
        (queries,) = self._queries()
        for start in range(0, jobs, _AT_ONCE):
            part = range(start, min(start + _AT_ONCE, jobs))
            await queries.enqueue([_QUEUE] * len(part), [body(number) for number in part], [0] * len(part))

    async def work(self, batch: int, tally: _Tally) -> None:
        from pgqueuer.qm import QueueManager

        async def finish(_: Any) -> None:
            tally.add()

        async def stop_all() -> None:
            await tally.wait()
            for manager in managers:
                manager.shutdown.set()

        managers = [QueueManager(queries) for queries in self._queries()]
        for manager in managers:
            manager.entrypoint(_QUEUE, accepts_context=False)(finish)
        await asyncio.gather(stop_all(), *[manager.run(batch_size=batch) for manager in managers])

    async def left(self) -> int:
        return int(await self._connections[0].fetchval("SELECT count(*) FROM pgqueuer"))


class _Procrastinate:
    """A worker and a connection each, no listening; a single worker with as many tasks at a time is slower."""

    def __init__(self, app: Any, connector: Any, count: int) -> None:
        self._app, self._connector, self._count = app, connector, count
        self._tally: _Tally | None = None
        self._task = app.task(name="nothing", queue=_QUEUE)(self._nothing)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, count: int) -> AsyncIterator[_Session]:
        import procrastinate

        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=count, max_size=count)
        app = procrastinate.App(connector=connector)
        session = cls(app, connector, count)
        async with app.open_async():
            yield session

    async def install(self) -> None:
        await self._app.schema_manager.apply_schema_async()

    async def fill(self, jobs: int) -> None:
        await self._task.batch_defer_async(*[payload(number) for number in range(jobs)])

    async def work(self, _batch: int, tally: _Tally) -> None:
        self._tally = tally
        options = {"queues": [_QUEUE], "wait": False, "listen_notify": False, "install_signal_handlers": False}
        await asyncio.gather(*[self._app.run_worker_async(**options) for _ in range(self._count)])

    async def left(self) -> int:
        query = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status <> 'succeeded'"
        (row,) = await self._connector.execute_query_all_async(query)
        return int(row["jobs"])

    async def _nothing(self, **_: Any) -> None:
        assert self._tally is not None
        self._tally.add()


ALL = {
    "pgqueuer": _Kind(("pgqueuer", "asyncpg"), _Pgqueuer.open, slower=1),
    "procrastinate": _Kind(("procrastinate",), _Procrastinate.open, slower=20),  # it takes its jobs one by one
}
