"""The peers on PostgreSQL, procrastinate and pgqueuer: their own workers, on tasks that do nothing, as their documents advise.

The jobs of a turn are sent beforehand, and several processes work them off. Starting the workers counts, and is little beside a turn; what
is counted ends when they have written down that the last job is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import uvloop

from benchmarks.harness import Gauge, Turns
from benchmarks.payload import body, payload
from benchmarks.postgresql.status_column import settle
from benchmarks.scale import Scale
from benchmarks.servers import Host
from benchmarks.together import Processes, Turning, shares

T = TypeVar("T")

_QUEUE = "bench"
_AT_ONCE = 1_000
_GLANCE_SECONDS = 0.01

Peer = Callable[[Host, Scale, Gauge, Path], Turns]


class _Session(NamedTuple):
    """A peer's connections, of one process, and what is done by them."""

    install: Callable[[], Awaitable[object]]
    fill: Callable[[int], Awaitable[object]]
    work: Callable[[int, _Tally], Awaitable[object]]
    """In batches of so many. Ends when all jobs of the turn are done, also those that other processes took."""
    left: Callable[[], Awaitable[int]]


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
    return {name: partial(_turns, name) for name, (packages, *_) in ALL.items() if all(find_spec(package) for package in packages)}


def _turns(name: str, host: Host, scale: Scale, gauge: Gauge, room: Path) -> Turns:
    _, opening, slower = ALL[name]
    jobs = max(1, scale.jobs // slower)
    with host.database() as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        opened = opening(url, 1)
        session = loop.run(opened.__aenter__())
        try:
            loop.run(_do(session.install()))
            parts = [(name, url, str(room / "tally"), share, scale.batch) for share in shares(scale.connections, scale.processes)]
            with Processes(f"{__name__}:workers", parts) as processes:
                for turn in range(1, 2 + scale.consumer_turns):
                    loop.run(_do(session.fill(jobs)))
                    settle(url)
                    taken = host.turn(gauge, partial(processes.turn, jobs * turn))
                    left = loop.run(_do(session.left()))
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
    async with ALL[name][1](url, connections) as session:

        async def turn(goal: float) -> int:
            """Until so many jobs have been done since the beginning."""
            tally.goal, tally.own = int(goal), 0
            await session.work(batch, tally)
            return tally.own

        yield turn


@asynccontextmanager
async def _pgqueuer(url: str, count: int) -> AsyncIterator[_Session]:
    """A manager and an asyncpg connection each, large batches, its own settings for autovacuum."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    plain, socket = url.partition("?")[0], dict(parse_qsl(urlsplit(url).query)).get("host")
    connections = [await asyncpg.connect(plain, host=socket, port=urlsplit(url).port) for _ in range(count)]
    queries = Queries(AsyncpgDriver(connections[0]))

    async def install() -> None:
        await queries.install()
        await queries.optimize_autovacuum()

    async def fill(jobs: int) -> None:
        for start in range(0, jobs, _AT_ONCE):
            part = range(start, min(start + _AT_ONCE, jobs))
            await queries.enqueue([_QUEUE] * len(part), [body(number) for number in part], [0] * len(part))

    async def work(batch: int, tally: _Tally) -> None:
        async def finish(_: Any) -> None:
            tally.add()

        async def stop_all() -> None:
            await tally.wait()
            for manager in managers:
                manager.shutdown.set()

        managers = [QueueManager(Queries(AsyncpgDriver(connection))) for connection in connections]
        for manager in managers:
            manager.entrypoint(_QUEUE, accepts_context=False)(finish)
        await asyncio.gather(stop_all(), *[manager.run(batch_size=batch) for manager in managers])

    yield _Session(install, fill, work, lambda: connections[0].fetchval("SELECT count(*) FROM pgqueuer"))
    for connection in connections:
        await connection.close()


@asynccontextmanager
async def _procrastinate(url: str, count: int) -> AsyncIterator[_Session]:
    """A worker and a connection each, no listening; a single worker with as many tasks at a time is slower."""
    import procrastinate

    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=count, max_size=count)
    app = procrastinate.App(connector=connector)
    done: list[_Tally] = []

    @app.task(name="nothing", queue=_QUEUE)  # type: ignore[untyped-decorator]  # where it is not installed
    async def task(**_: Any) -> None:
        done[0].add()

    async def fill(jobs: int) -> None:
        await task.batch_defer_async(*[payload(number) for number in range(jobs)])

    async def work(_batch: int, tally: _Tally) -> None:
        done[:] = [tally]
        options = {"queues": [_QUEUE], "wait": False, "listen_notify": False, "install_signal_handlers": False}
        await asyncio.gather(*[app.run_worker_async(**options) for _ in range(count)])

    async def left() -> int:
        (row,) = await connector.execute_query_all_async("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'")
        return int(row["count"])

    async with app.open_async():
        yield _Session(app.schema_manager.apply_schema_async, fill, work, left)


async def _do(awaitable: Awaitable[T]) -> T:
    """For a runner, which takes coroutines only."""
    return await awaitable


ALL: dict[str, tuple[tuple[str, ...], Callable[[str, int], AbstractAsyncContextManager[_Session]], int]] = {
    "pgqueuer": (("pgqueuer", "asyncpg"), _pgqueuer, 1),
    "procrastinate": (("procrastinate",), _procrastinate, 20),
}
"""Its packages, how it is opened with so many connections, and how many times fewer jobs it gets: procrastinate takes them one by one."""
