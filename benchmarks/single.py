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

_OURS, _AUDITED = "rowq, no audit", "rowq, audit (the default)"
_BARS = {
    (rivals.LITEQUEUE, SEND): Bar("at least", 1),
    (rivals.LITEQUEUE, FINISH): Bar("at least", 2),
    (rivals.PERSIST_QUEUE, SEND): Bar("at least", 0.8),
    (rivals.PERSIST_QUEUE, FINISH): Bar("at least", 1),
}
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
        for gauge in (SEND, FINISH):
            claims.append(Claim(f"rowq to {name}, {gauge.what}", "x", scores.ratio(gauge, _OURS, name), _BARS.get((name, gauge))))
            claims.append(Claim("the same with audit", "x", scores.ratio(gauge, _AUDITED, name)))
    notes = [
        "One caller by the synchronous API, the same payloads for all, synchronous = NORMAL for all.",
        f"The bars are for {_OURS!r}, since no peer writes an audit; the ratios with it are told beside.",
        *[f"{name}: {rivals.LACKS[name]}." for name in peers],
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
