"""One caller, one message at a time, beside the peers; and whether a longer queue makes it slower."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rowq
from benchmarks import rivals
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Timing, Turns, interleave
from benchmarks.payload import payload, payloads
from benchmarks.scale import Scale
from benchmarks.scratch import url

SEND = Gauge("send", "/s")
FINISH = Gauge("lease and ack", "/s")

_OURS, _AUDITED, _LITEQUEUE = "rowq, no audit", "rowq, audit", "litequeue"
_AT_ONCE = 1_000


def run(bench: Bench) -> Chapter:
    scale, peers = bench.scale, rivals.present()
    few, many = f"{scale.small:,}", f"{scale.large:,}"
    long = f"rowq, no audit, {many} messages"
    contestants: dict[str, Contestant] = {
        _OURS: lambda room: _short(room, scale, audit=False),
        _AUDITED: lambda room: _short(room, scale, audit=True),
        long: lambda room: _long(room, scale),
        **{name: partial(_rival, scale, opening) for name, opening in peers.items()},
    }
    scores = interleave(bench, contestants)
    claims = [Claim(f"at {many} messages, of the rate at {few}", "%", scores.percent(FINISH, long, _OURS), Bar("at least", 80))]
    for name in peers:
        bar = Bar("at least", 2) if name == _LITEQUEUE else None
        claims.append(Claim(f"rowq to {name}, lease and ack", "x", scores.ratio(FINISH, _OURS, name), bar))
        claims.append(Claim("the same with audit", "x", scores.ratio(FINISH, _AUDITED, name)))
        claims.append(Claim(f"rowq to {name}, send", "x", scores.ratio(SEND, _OURS, name)))
    notes = [
        "All run with synchronous = NORMAL.",
        "The peers write no audit: the bar is for rowq without it, and the ratio with it is told beside.",
        "huey has no ack: a task that was taken is gone if its worker dies. litequeue and persist-queue keep what is done in the table.",
        *[f"{name} is not installed." for name in rivals.ALL if name not in peers],
    ]
    return Chapter("single", f"One caller, one message at a time, {few} messages, durability normal", scores.series(), claims, notes)


def _short(room: Path, scale: Scale, *, audit: bool) -> Turns:
    with rowq.connect(url(room / "queue.db", "normal")) as broker:
        broker.configure("bench", audit=audit)
        yield from _turns(SEND, scale.small, scale.turns, lambda number: broker.send("bench", payload(number)))
        yield from _turns(FINISH, scale.small, scale.turns, partial(_finish_one, broker))


def _long(room: Path, scale: Scale) -> Turns:
    """As many turns as the others, of more messages each."""
    with rowq.connect(url(room / "queue.db", "normal")) as broker:
        broker.configure("bench", audit=False)
        for start in range(0, scale.large, _AT_ONCE):
            broker.send_many("bench", payloads(min(_AT_ONCE, scale.large - start), start))
        for _ in range(scale.turns):
            yield {}  # the others send
        yield from _turns(FINISH, scale.large, scale.turns, partial(_finish_one, broker))


def _rival(scale: Scale, opening: rivals.Opening, room: Path) -> Turns:
    with opening(room) as rival:
        yield from _turns(SEND, scale.small, scale.turns, rival.send)
        yield from _turns(FINISH, scale.small, scale.turns, rival.finish_one)


def _finish_one(broker: rowq.Broker, _: int) -> None:
    broker.ack(broker.receive("bench")[0])


def _turns(gauge: Gauge, count: int, turns: int, act: Callable[[int], object]) -> Turns:
    size = count // turns
    for turn in range(turns):
        started = time.perf_counter()
        for number in range(turn * size, (turn + 1) * size):
            act(number)
        yield {gauge: Timing(time.perf_counter() - started, size)}
