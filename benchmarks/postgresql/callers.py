"""Many callers, one message a call, each call durable: rowq fuses them, the status column commits each on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Turns, interleave
from benchmarks.payload import body, payload, payloads
from benchmarks.postgresql import status_column
from benchmarks.scale import Scale
from benchmarks.servers import Host, on_postgresql
from benchmarks.together import Processes, Turning, shares

NAME, TITLE = "postgresql-callers", "PostgreSQL: callers with a message each, send, receive and ack"

CYCLE = Gauge("send, receive and ack", "/s")

_QUEUE = status_column.QUEUE
_OURS, _AUDITED, _STATUS = "rowq, no audit", "rowq, audit", "status column, a call each"
_POOL = 32
"""Connections of the status column: with 8 and with 64 it was slower, and so it was with threads."""
WORK = f"{__name__}:callers"
"""A process of callers of rowq."""

Cycle = Callable[[int], Awaitable[None]]


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale = bench.scale
    contestants: dict[str, Contestant] = {
        _OURS: lambda room: _ours(host, scale, audit=False),
        _AUDITED: lambda room: _ours(host, scale, audit=True),
        _STATUS: lambda room: _status(host, scale),
    }
    scores = interleave(bench, contestants)
    claims = [
        Claim("rowq to the status column", "x", scores.ratio(CYCLE, _OURS, _STATUS), Bar("at least", 10)),
        Claim("the same with audit", "x", scores.ratio(CYCLE, _AUDITED, _STATUS)),
    ]
    notes = [
        host.note,
        f"{scale.callers} callers, over a backlog: each sends a message, receives one and acks it, again and again.",
        f"Either side has {scale.processes} client processes that share the callers, an event loop each, uvloop's.",
        f"The status column shares {_POOL} connections, with which it is quickest, commits each call and deletes what is done.",
    ]
    return Chapter(NAME, TITLE, scores.series(), claims, notes)


def _ours(host: Host, scale: Scale, *, audit: bool) -> Turns:
    with host.database() as url:
        with rowq.connect(url) as broker:
            broker.configure(_QUEUE, audit=audit)
            broker.send_many(_QUEUE, payloads(scale.few))
        yield from _turns(host, scale, WORK, [(url, callers) for callers in shares(scale.callers, scale.processes)])


def _status(host: Host, scale: Scale) -> Turns:
    with host.database() as url:
        status_column.install(url)
        with status_column.StatusColumn(url) as filling:
            filling.send([body(number) for number in range(scale.few)])
        status_column.settle(url)
        parts = zip(shares(scale.callers, scale.processes), shares(_POOL, scale.processes), strict=True)
        yield from _turns(host, scale, f"{__name__}:status_callers", [(url, *part) for part in parts])


def _turns(host: Host, scale: Scale, work: str, arguments: Sequence[Sequence[object]]) -> Turns:
    with Processes(work, arguments) as processes:
        processes.turn(scale.process_seconds / 5)
        for _ in range(scale.caller_turns):
            yield host.turn(CYCLE, lambda: processes.turn(scale.process_seconds))


@asynccontextmanager
async def callers(url: str, count: int) -> AsyncIterator[Turning]:
    async with rowq.connect_async(url) as broker:

        async def cycle(number: int) -> None:
            await broker.send(_QUEUE, payload(number))
            (delivery,) = await broker.receive(_QUEUE, wait=10)
            await broker.ack(delivery)

        yield _turning(count, cycle)


@asynccontextmanager
async def status_callers(url: str, count: int, connections: int) -> AsyncIterator[Turning]:
    """The connections go from caller to caller, and nothing else is done with them: a pool that checks and resets them takes its time."""
    free: asyncio.LifoQueue[psycopg.AsyncConnection] = asyncio.LifoQueue()
    async with AsyncExitStack() as stack:
        for _ in range(connections):
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
            free.put_nowait(await stack.enter_async_context(connection))

        async def run(query: str, *parameters: object) -> psycopg.AsyncCursor:
            connection = await free.get()
            try:
                return await connection.execute(query, parameters)
            finally:
                free.put_nowait(connection)

        async def cycle(number: int) -> None:
            await run(status_column.SEND_ONE, _QUEUE, body(number))
            ((id, _),) = await (await run(status_column.CLAIM, _QUEUE, 1)).fetchall()
            await run(status_column.DELETE, [id])

        yield _turning(count, cycle)


def _turning(callers: int, cycle: Cycle) -> Turning:
    async def turn(seconds: float) -> int:
        until = time.perf_counter() + seconds

        async def caller() -> int:
            done = 0
            while not done or time.perf_counter() < until:
                await cycle(done)
                done += 1
            return done

        return sum(await asyncio.gather(*[caller() for _ in range(callers)]))

    return turn
