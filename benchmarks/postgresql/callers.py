"""Many callers, one message a call, each call durable: rowq fuses them, the status column commits each on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import psycopg

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Timing, Turns, interleave
from benchmarks.payload import body, payload, payloads
from benchmarks.postgresql import status_column
from benchmarks.scale import Scale
from benchmarks.servers import Host, on_postgresql

NAME, TITLE = "postgresql-callers", "PostgreSQL: callers with a message each, send, receive and ack"

CYCLE = Gauge("send, receive and ack", "/s")

_QUEUE = status_column.QUEUE
_OURS, _AUDITED, _STATUS = "rowq, no audit", "rowq, audit", "status column, a call each"
_POOL = 32
"""Connections of the status column: with 8 and with 64 it was slower, and so it was with threads."""
_LONGER = 10
"""A turn of group commits is over in no time: it has so many times the calls."""

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
        f"{scale.callers} callers in one event loop, over a backlog: each sends a message, receives one and acks it, again and again.",
        f"The status column shares {_POOL} connections, with which it is quickest, commits each call and deletes what is done.",
    ]
    return Chapter(NAME, TITLE, scores.series(), claims, notes)


def _ours(host: Host, scale: Scale, *, audit: bool) -> Turns:
    with host.database() as url, asyncio.Runner() as loop, _opened(loop, rowq.connect_async(url)) as broker:
        loop.run(broker.configure(_QUEUE, audit=audit))
        loop.run(broker.send_many(_QUEUE, payloads(scale.few)))

        async def cycle(number: int) -> None:
            await broker.send(_QUEUE, payload(number))
            (delivery,) = await broker.receive(_QUEUE, wait=10)
            await broker.ack(delivery)

        yield from _turns(loop, scale, scale.calls_each * _LONGER, cycle)


@contextmanager
def _opened(loop: asyncio.Runner, broker: rowq.AsyncBroker) -> Iterator[rowq.AsyncBroker]:
    loop.run(broker.__aenter__())
    try:
        yield broker
    finally:
        loop.run(broker.close())


def _status(host: Host, scale: Scale) -> Turns:
    with host.database() as url, asyncio.Runner() as loop:
        status_column.install(url)
        with status_column.StatusColumn(url) as filling:
            filling.send([body(number) for number in range(scale.few)])
        status_column.settle(url)
        pool = _Pool()
        loop.run(pool.open(url))

        async def cycle(number: int) -> None:
            async with pool.connection() as connection:
                await connection.execute(status_column.SEND_ONE, (_QUEUE, body(number)))
            async with pool.connection() as connection:
                ((id, _),) = await (await connection.execute(status_column.CLAIM, (_QUEUE, 1))).fetchall()
            async with pool.connection() as connection:
                await connection.execute(status_column.DELETE, ([id],))

        try:
            yield from _turns(loop, scale, scale.calls_each, cycle)
        finally:
            loop.run(pool.close())


def _turns(loop: asyncio.Runner, scale: Scale, calls: int, cycle: Cycle) -> Turns:
    async def caller(calls: int) -> None:
        for number in range(calls):
            await cycle(number)

    async def turn(calls: int) -> Timing:
        started = time.perf_counter()
        await asyncio.gather(*[caller(calls) for _ in range(scale.callers)])
        return Timing(time.perf_counter() - started, scale.callers * calls)

    loop.run(turn(2))
    for _ in range(scale.caller_turns):
        yield {CYCLE: loop.run(turn(calls))}


class _Pool:
    """Connections by turns, and nothing else: a pool that checks and resets them takes its time."""

    def __init__(self) -> None:
        self._free: asyncio.LifoQueue[psycopg.AsyncConnection] = asyncio.LifoQueue()
        self._opened = AsyncExitStack()

    async def open(self, url: str) -> None:
        for _ in range(_POOL):
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
            self._free.put_nowait(await self._opened.enter_async_context(connection))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        connection = await self._free.get()
        try:
            yield connection
        finally:
            self._free.put_nowait(connection)

    async def close(self) -> None:
        await self._opened.aclose()
