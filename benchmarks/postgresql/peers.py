"""The peers on PostgreSQL, procrastinate and pgqueuer: their own workers, on tasks that do nothing, as their documents advise.

The jobs of a turn are sent beforehand. Starting the workers counts, and is little beside a turn; what is counted ends when they have
written down that the last job is done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import uvloop

from benchmarks.harness import Gauge, Timing, Turns
from benchmarks.payload import body, payload
from benchmarks.postgresql.status_column import settle
from benchmarks.scale import Scale
from benchmarks.servers import Host

_QUEUE = "bench"
_AT_ONCE = 1_000
_SLOWER = 20
"""procrastinate takes its jobs one by one: so many times fewer make a turn of the same length."""

Peer = Callable[[Host, Scale, Gauge], Turns]


def present() -> dict[str, Peer]:
    """Those that are installed."""
    return {name: peer for name, (packages, peer) in ALL.items() if all(find_spec(package) for package in packages)}


def _pgqueuer(host: Host, scale: Scale, gauge: Gauge) -> Turns:
    """A manager and an asyncpg connection each, large batches, its own settings for autovacuum, uvloop."""
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    async def open(url: str) -> list[Any]:
        plain, socket = url.partition("?")[0], dict(parse_qsl(urlsplit(url).query)).get("host")
        connections = [await asyncpg.connect(plain, host=socket, port=urlsplit(url).port) for _ in range(scale.connections)]
        queries = Queries(AsyncpgDriver(connections[0]))
        await queries.install()
        await queries.optimize_autovacuum()
        return connections

    async def fill() -> None:
        queries = Queries(AsyncpgDriver(connections[0]))
        for start in range(0, scale.jobs, _AT_ONCE):
            part = range(start, min(start + _AT_ONCE, scale.jobs))
            await queries.enqueue([_QUEUE] * len(part), [body(number) for number in part], [0] * len(part))

    async def work() -> Timing:
        managers = [QueueManager(Queries(AsyncpgDriver(connection))) for connection in connections]
        left = scale.jobs

        async def finish(_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                for manager in managers:
                    manager.shutdown.set()

        for manager in managers:
            manager.entrypoint(_QUEUE, accepts_context=False)(finish)
        started = time.perf_counter()
        await asyncio.gather(*[manager.run(batch_size=scale.batch) for manager in managers])
        took = time.perf_counter() - started
        rest = await connections[0].fetchval("SELECT count(*) FROM pgqueuer")
        assert rest == 0, f"pgqueuer left {rest} jobs"
        return Timing(took, scale.jobs)

    async def close() -> None:
        for connection in connections:
            await connection.close()

    with host.database() as url, _loop() as run:
        connections = run(open(url))
        try:
            yield from _turns(scale, gauge, run, url, fill, work)
        finally:
            run(close())


def _procrastinate(host: Host, scale: Scale, gauge: Gauge) -> Turns:
    """A worker and a connection each, no listening, uvloop; a single worker with as many tasks at a time is slower."""
    import procrastinate

    jobs = max(1, scale.jobs // _SLOWER)

    async def nothing(**_: Any) -> None:
        """A task's work."""

    async def open() -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()

    async def fill() -> None:
        await task.batch_defer_async(*[payload(number) for number in range(jobs)])

    async def work() -> Timing:
        started = time.perf_counter()
        workers = [
            app.run_worker_async(queues=[_QUEUE], wait=False, listen_notify=False, install_signal_handlers=False)
            for _ in range(scale.connections)
        ]
        await asyncio.gather(*workers)
        return Timing(time.perf_counter() - started, jobs)

    with host.database() as url, _loop() as run:
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=scale.connections, max_size=scale.connections)
        app = procrastinate.Application(connector=connector)
        task = app.task(name="nothing", queue=_QUEUE)(nothing)
        run(open())
        try:
            yield from _turns(scale, gauge, run, url, fill, work)
            (left,) = run(connector.execute_query_all_async("SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status <> 'succeeded'"))
            assert left["jobs"] == 0, f"procrastinate left {left['jobs']} jobs"
        finally:
            run(app.close_async())


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def _loop() -> Iterator[Run]:
    quiet = [logging.getLogger(name) for name in ("pgqueuer", "procrastinate")]
    levels = [logger.level for logger in quiet]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        for logger in quiet:
            logger.setLevel(logging.ERROR)
        try:
            yield loop.run
        finally:
            for logger, level in zip(quiet, levels, strict=True):
                logger.setLevel(level)


def _turns(
    scale: Scale,
    gauge: Gauge,
    run: Run,
    url: str,
    fill: Callable[[], Coroutine[Any, Any, None]],
    work: Callable[[], Coroutine[Any, Any, Timing]],
) -> Turns:
    for turn in range(1 + scale.consumer_turns):
        run(fill())
        settle(url)
        timing = run(work())
        if turn:  # the first was for warming up
            yield {gauge: timing}


ALL: dict[str, tuple[tuple[str, ...], Peer]] = {
    "pgqueuer": (("pgqueuer", "asyncpg"), _pgqueuer),
    "procrastinate": (("procrastinate",), _procrastinate),
}
