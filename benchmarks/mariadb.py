"""Batches of 100 by one connection on MariaDB: what the engine adds to raw SQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Timing, Turns, interleave
from benchmarks.payload import SIZE, body, payloads
from benchmarks.raw_mariadb import RawMariadb
from benchmarks.scale import Scale
from benchmarks.servers import Host, on_mariadb

T = TypeVar("T")
D = TypeVar("D")

NAME, TITLE = "mariadb", "MariaDB: receive and ack in batches, by one connection"

SEND = Gauge("send", "/s")
FINISH = Gauge("receive and ack", "/s")

_QUEUE = "bench"
_RAW, _OURS, _AUDITED = "raw SQL", "rowq, no audit", "rowq, audit"
_LEAST = 100 * 25_000 / 38_000


def run(bench: Bench) -> Chapter:
    return on_mariadb(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scale = bench.scale
    contestants: dict[str, Contestant] = {
        _RAW: lambda room: _raw(host, scale),
        _OURS: lambda room: _ours(host, scale, audit=False),
        _AUDITED: lambda room: _ours(host, scale, audit=True),
    }
    scores = interleave(bench, contestants)
    claims = [
        Claim("receive and ack, no audit, of raw SQL's rate", "%", scores.percent(FINISH, _OURS, _RAW), Bar("at least", round(_LEAST, 1))),
        Claim("receive and ack, audit, of raw SQL's rate", "%", scores.percent(FINISH, _AUDITED, _RAW)),
        Claim("send, no audit, of raw SQL's rate", "%", scores.percent(SEND, _OURS, _RAW)),
    ]
    notes = [
        host.note,
        f"{scale.batch} messages a batch, {SIZE} B of JSON a message, over a backlog of {scale.backlog:,}.",
        "Raw SQL moves bytes through tables like rowq's by PyMySQL, READ COMMITTED and SKIP LOCKED; rowq encodes and decodes the JSON.",
    ]
    return Chapter(NAME, TITLE, scores.series(), claims, notes)


def _ours(host: Host, scale: Scale, *, audit: bool) -> Turns:
    with host.database() as url, rowq.connect(url) as broker:
        broker.configure(_QUEUE, audit=audit)
        yield from _turns(
            scale,
            payloads(scale.batch),
            lambda batch: broker.send_many(_QUEUE, batch),
            lambda: broker.receive(_QUEUE, max=scale.batch),
            lambda taken: broker.ack_many(taken).count(rowq.Outcome.DONE),
        )


def _raw(host: Host, scale: Scale) -> Turns:
    with host.database() as url, RawMariadb(url) as queue:
        bodies = [body(number) for number in range(scale.batch)]
        yield from _turns(scale, bodies, queue.send, lambda: queue.receive(scale.batch), queue.ack)


def _turns(
    scale: Scale, batch: list[T], send: Callable[[list[T]], object], receive: Callable[[], list[D]], ack: Callable[[list[D]], int]
) -> Turns:
    def sending() -> None:
        send(batch)

    def finishing() -> None:
        assert ack(receive()) == scale.batch

    for _ in range(scale.backlog // scale.batch):
        send(batch)
    for turn in range(1 + scale.turns // 2):
        sent, finished = _timed(scale, sending), _timed(scale, finishing)
        if turn:  # the first was for warming up
            yield {SEND: sent, FINISH: finished}


def _timed(scale: Scale, act: Callable[[], None]) -> Timing:
    started = time.perf_counter()
    for _ in range(scale.cycles):
        act()
    return Timing(time.perf_counter() - started, scale.cycles * scale.batch)
