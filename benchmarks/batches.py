"""Batches of 100 through their whole life: what the engine adds to raw SQL over the same tables, and what the audit adds to that."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Timing, Turn, Turns, interleave
from benchmarks.payload import SIZE, body, payloads
from benchmarks.raw import RawQueue, RawSets
from benchmarks.scale import Scale
from benchmarks.scratch import url

T = TypeVar("T")
D = TypeVar("D")

CYCLE = Gauge("whole cycle", "/s")
SEND, RECEIVE, ACK = Gauge("send", "µs"), Gauge("receive", "µs"), Gauge("ack", "µs")

_RAW, _SETS, _OURS, _AUDITED = "raw SQL, normal", "raw SQL, normal, in sets", "rowq, normal, no audit", "rowq, normal, audit"
_RAW_FULL, _FULL, _SEND = "raw SQL, full", "rowq, full, no audit", "rowq, send, no audit"


def run(bench: Bench) -> Chapter:
    scale = bench.scale
    contestants: dict[str, Contestant] = {
        _RAW: lambda room: _raw(RawQueue(room / "queue.db", synchronous="NORMAL"), scale),
        _SETS: lambda room: _raw(RawSets(room / "queue.db", synchronous="NORMAL"), scale),
        _OURS: lambda room: _ours(room, scale, "normal", audit=False),
        _AUDITED: lambda room: _ours(room, scale, "normal", audit=True),
        _RAW_FULL: lambda room: _raw(RawQueue(room / "queue.db", synchronous="FULL"), scale),
        _FULL: lambda room: _ours(room, scale, "full", audit=False),
        _SEND: lambda room: _ours(room, scale, "send", audit=False),
    }
    scores = interleave(bench, contestants)
    claims = [
        Claim("no audit, of raw SQL's rate", "%", scores.percent(CYCLE, _OURS, _RAW), Bar("at least", 60)),
        Claim("time with audit, of that without", "%", scores.percent(CYCLE, _OURS, _AUDITED), Bar("at most", 140)),
        Claim("no audit, of raw SQL's rate in sets", "%", scores.percent(CYCLE, _OURS, _SETS)),
        Claim("full, no audit, of raw SQL's rate", "%", scores.percent(CYCLE, _FULL, _RAW_FULL)),
    ]
    claims += [
        Claim(f"{gauge.what}, no audit: time, of raw SQL's", "%", scores.percent(gauge, _OURS, _RAW)) for gauge in (SEND, RECEIVE, ACK)
    ]
    notes = [
        "Times are per message. rowq encodes and decodes the JSON; raw SQL is given bytes and gives bytes.",
        "Raw SQL is a loop over the rows; in sets, the database moves them from table to table by itself.",
    ]
    return Chapter("batches", f"Batches of {scale.batch}, {SIZE} B of JSON a message", scores.series(), claims, notes)


def _ours(room: Path, scale: Scale, durability: str, *, audit: bool) -> Turns:
    with rowq.connect(url(room / "queue.db", durability)) as broker:
        broker.configure("bench", audit=audit)

        def send(batch: list[dict[str, object]]) -> list[str]:
            return broker.send_many("bench", batch)

        def receive() -> list[rowq.Delivery]:
            return broker.receive("bench", max=scale.batch)

        def ack(taken: list[rowq.Delivery]) -> int:
            return broker.ack_many(taken).count(rowq.Outcome.DONE)

        yield from _cycles(scale, payloads(scale.batch), send, receive, ack)


def _raw(queue: RawQueue, scale: Scale) -> Turns:
    with queue:
        bodies = [body(number) for number in range(scale.batch)]
        yield from _cycles(scale, bodies, queue.send, lambda: queue.receive(scale.batch), queue.ack)


def _cycles(
    scale: Scale, batch: list[T], send: Callable[[list[T]], object], receive: Callable[[], list[D]], ack: Callable[[list[D]], int]
) -> Turns:
    """Over a backlog, so that what is received was not sent just now."""

    def turn() -> Turn:
        clock = time.perf_counter
        sending = receiving = acking = 0.0
        for _ in range(scale.cycles):
            started = clock()
            send(batch)
            sent = clock()
            taken = receive()
            received = clock()
            acked = ack(taken)
            finished = clock()
            assert acked == scale.batch
            sending += sent - started
            receiving += received - sent
            acking += finished - received
        count = scale.cycles * scale.batch
        return {
            CYCLE: Timing(sending + receiving + acking, count),
            SEND: Timing(sending, count),
            RECEIVE: Timing(receiving, count),
            ACK: Timing(acking, count),
        }

    for _ in range(scale.backlog // scale.batch):
        send(batch)
    turn()
    for _ in range(scale.turns):
        yield turn()
