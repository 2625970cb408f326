"""Batches of 100 by 8 connections, receive and ack: beside a status column and beside the peers, on fresh tables and on worn ones.

Worn means that a snapshot has been held open while many messages were processed, so that the table is full of the dead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, nullcontext
from functools import partial

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Scores, Turns, interleave
from benchmarks.payload import SIZE, body, payloads
from benchmarks.postgresql import peers, status_column
from benchmarks.postgresql.status_column import StatusColumn
from benchmarks.scale import Scale
from benchmarks.servers import SERVER_CPU, Host, held_snapshot, on_postgresql
from benchmarks.together import Processes, Turning, shares

NAME, TITLE = "postgresql-batches", "PostgreSQL: receive and ack in batches, by several connections"

FRESH = Gauge("fresh tables", "/s")
WORN = Gauge("under a held snapshot", "/s")
WORN_CPU = Gauge("server CPU a message then", "µs")

_QUEUE = status_column.QUEUE
_OURS, _AUDITED = "rowq, no audit", "rowq, audit"
_KEPT, _LOGGED, _GONE = "status column, done is kept", "status column, done is deleted and logged", "status column, done is deleted"
_WAYS = {_KEPT: status_column.KEEP, _LOGGED: status_column.DELETE_AND_LOG, _GONE: status_column.DELETE}
_AT_ONCE = 1_000
_PEER_BARS = {"pgqueuer": 5, "procrastinate": 20}
_WORN_SHARE = 5
"""A status column that is worn takes ages for a batch: a turn on worn tables has so many times fewer of them, for everybody."""

Filling = Callable[[int], None]
"""Sends so many messages."""


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale, present = bench.scale, peers.present()
    fresh = interleave(
        bench,
        {
            _OURS: lambda room: _ours(host, scale, audit=False),
            _AUDITED: lambda room: _ours(host, scale, audit=True),
            **{name: _contestant(host, scale, finish) for name, finish in _WAYS.items()},
            **{name: partial(peer, host, scale, FRESH) for name, peer in present.items()},
        },
    )
    worn = interleave(
        bench,
        {
            _OURS: lambda room: _ours(host, scale, audit=False, is_worn=True),
            _KEPT: lambda room: _status(host, scale, status_column.KEEP, is_worn=True),
        },
    )
    notes = [
        host.note,
        f"All contestants have {scale.processes} client processes that share {scale.connections} connections.",
        f"{scale.batch} messages a batch, {SIZE} B of JSON a message, over a backlog.",
        "rowq is a broker a process, with a thread a connection. It decodes the JSON; the status column gives bytes, and writes no audit.",
        "procrastinate keeps what is done, pgqueuer deletes it and writes a log: the bar is for both ways.",
        f"Under a held snapshot: after {scale.processed:,} messages were processed while another connection kept a snapshot open.",
        "The peers run their own workers on tasks that do nothing, a connection each, on uvloop.",
        *[f"{name} is not installed." for name in peers.ALL if name not in present],
    ]
    return Chapter(NAME, TITLE, fresh.series() + worn.series(), _claims(fresh, worn, list(present)), notes)


def _claims(fresh: Scores, worn: Scores, present: list[str]) -> list[Claim]:
    return [
        Claim("fresh: rowq to the status column that keeps", "x", fresh.ratio(FRESH, _OURS, _KEPT), Bar("at least", 1.1)),
        Claim("fresh: to the one that deletes and logs", "x", fresh.ratio(FRESH, _OURS, _LOGGED), Bar("at least", 1.1)),
        Claim("fresh: to the one that deletes", "x", fresh.ratio(FRESH, _OURS, _GONE)),
        Claim("held snapshot: rowq to the status column that keeps", "x", worn.ratio(WORN, _OURS, _KEPT), Bar("at least", 5)),
        *[Claim(f"rowq to {name}", "x", fresh.ratio(FRESH, _OURS, name), Bar("at least", _PEER_BARS[name])) for name in present],
        Claim("fresh: rowq with audit, of that without", "x", fresh.ratio(FRESH, _AUDITED, _OURS)),
    ]


def _contestant(host: Host, scale: Scale, finish: str) -> Contestant:
    return lambda room: _status(host, scale, finish)


def _ours(host: Host, scale: Scale, *, audit: bool, is_worn: bool = False) -> Turns:
    with host.database() as url, rowq.connect(url) as broker:
        broker.configure(_QUEUE, audit=audit)

        def fill(count: int) -> None:
            for start in range(0, count, _AT_ONCE):
                broker.send_many(_QUEUE, payloads(min(_AT_ONCE, count - start), start))

        yield from _turns(host, url, scale, fill, partial(_take, broker), f"{__name__}:rowq_consumers", is_worn=is_worn)


def _status(host: Host, scale: Scale, finish: str, *, is_worn: bool = False) -> Turns:
    with host.database() as url:
        status_column.install(url)
        with StatusColumn(url, finish) as column:

            def fill(count: int) -> None:
                for start in range(0, count, _AT_ONCE):
                    column.send([body(number) for number in range(start, min(start + _AT_ONCE, count))])
                status_column.settle(url)

            yield from _turns(host, url, scale, fill, column.take, f"{__name__}:status_consumers", finish, is_worn=is_worn)


def _turns(
    host: Host, url: str, scale: Scale, fill: Filling, take: Callable[[int], int], work: str, *arguments: object, is_worn: bool
) -> Turns:
    """`take` receives and acks up to so many and tells how many it were, as the processes of the work do in their turns."""
    batches = max(1, scale.batches_each // _WORN_SHARE) if is_worn else scale.batches_each
    each = scale.connections * batches * scale.batch
    gauges = (WORN, WORN_CPU) if is_worn else (FRESH, SERVER_CPU)
    parts = [(url, connections, scale.batch, *arguments) for connections in shares(scale.connections, scale.processes)]
    with Processes(work, parts) as processes, held_snapshot(url) if is_worn else nullcontext():
        fill(each * (scale.consumer_turns + 2) + (scale.processed if is_worn else 0))
        if is_worn:
            _wear(scale.processed, take)
        processes.turn(batches)
        for _ in range(scale.consumer_turns):
            taken = host.turn(gauges[0], lambda: processes.turn(batches), gauges[1])
            assert taken[gauges[0]].messages == each, "a batch was not full"
            yield taken


def _wear(count: int, take: Callable[[int], int]) -> None:
    """In larger batches, since this is not what is measured; the dead are as many."""
    done = 0
    while done < count:
        took = take(min(_AT_ONCE, count - done))
        assert took, "the backlog ran dry"
        done += took


def _take(broker: rowq.Broker, most: int) -> int:
    taken = broker.receive(_QUEUE, max=most)
    acked = broker.ack_many(taken).count(rowq.Outcome.DONE)
    assert acked == len(taken)
    return acked


@asynccontextmanager
async def rowq_consumers(url: str, connections: int, batch: int) -> AsyncIterator[Turning]:
    with rowq.connect(url) as broker:
        yield _turning([partial(_take, broker, batch)] * connections)


@asynccontextmanager
async def status_consumers(url: str, connections: int, batch: int, finish: str) -> AsyncIterator[Turning]:
    with ExitStack() as stack:
        yield _turning([partial(stack.enter_context(StatusColumn(url, finish)).take, batch) for _ in range(connections)])


def _turning(takes: list[Callable[[], int]]) -> Turning:
    threads = ThreadPoolExecutor(len(takes))

    async def turn(batches: float) -> int:
        return sum(threads.map(lambda take: sum(take() for _ in range(int(batches))), takes))

    return turn
