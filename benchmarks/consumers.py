"""A consumer whose function does nothing, in batches: what it adds to the verbs that it calls, receive and ack_many."""

from __future__ import annotations

import threading
import time

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Scores, Timing, Turn, Turns, interleave
from benchmarks.payload import SIZE, payloads
from benchmarks.scale import Scale
from benchmarks.scratch import url
from benchmarks.servers import SERVER_CPU, Host, on_postgresql

NAME, TITLE = "consumers", "A consumer that does nothing, in batches"
ON_POSTGRESQL, POSTGRESQL_TITLE = "postgresql-consumers", "PostgreSQL: a consumer that does nothing, in batches"

RATE = Gauge("receive and ack", "/s")

_QUEUE = "bench"
_VERBS, _CONSUMER, _PARTITIONED = "the verbs", "a consumer", "a consumer, partitioned"


def run(bench: Bench) -> Chapter:
    scale = bench.scale
    contestants: dict[str, Contestant] = {
        _VERBS: lambda room: _verbs(url(room / "queue.db", "send"), scale),
        _CONSUMER: lambda room: _consumer(url(room / "queue.db", "send"), scale, partitioned=False),
        _PARTITIONED: lambda room: _consumer(url(room / "queue.db", "send"), scale, partitioned=True),
    }
    return _chapter(NAME, TITLE, interleave(bench, contestants), scale)


def run_on_postgresql(bench: Bench) -> Chapter:
    return on_postgresql(bench, ON_POSTGRESQL, POSTGRESQL_TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    def on_host(way: str) -> Contestant:
        def turns(_room: object) -> Turns:
            with host.database() as address:
                yield from (
                    _verbs(address, bench.scale, host)
                    if way == _VERBS
                    else _consumer(address, bench.scale, host, partitioned=way == _PARTITIONED)
                )

        return turns

    scores = interleave(bench, {way: on_host(way) for way in (_VERBS, _CONSUMER, _PARTITIONED)})
    return _chapter(ON_POSTGRESQL, POSTGRESQL_TITLE, scores, bench.scale, host.note)


def _chapter(name: str, title: str, scores: Scores, scale: Scale, *notes: str) -> Chapter:
    claims = [
        Claim("a consumer, of the rate of the verbs", "%", scores.percent(RATE, _CONSUMER, _VERBS), Bar("at least", 70)),
        Claim("partitioned, with one other, of that", "%", scores.percent(RATE, _PARTITIONED, _VERBS)),
    ]
    told = [*notes, f"Batches of {scale.batch}, {SIZE} B of JSON a message, over a backlog, with the audit; one thread that works."]
    return Chapter(name, title, scores.series(), claims, told)


class _Stopwatch:
    """Of the time, and of what the server's processes take, where there is one."""

    def __init__(self, host: Host | None) -> None:
        self._cpu = host.cpu if host is not None else None

    def start(self) -> None:
        self._spent = self._cpu() if self._cpu else 0.0
        self._began = time.perf_counter()

    def stop(self, messages: int) -> Turn:
        timing = Timing(time.perf_counter() - self._began, messages)
        return {RATE: timing, SERVER_CPU: Timing(self._cpu() - self._spent, messages)} if self._cpu else {RATE: timing}


def _verbs(address: str, scale: Scale, host: Host | None = None) -> Turns:
    watch = _Stopwatch(host)
    with rowq.connect(address) as broker:
        _fill(broker, scale, scale.backlog)
        for _ in range(scale.turns):
            _fill(broker, scale, scale.cycles * scale.batch)
            watch.start()
            for _ in range(scale.cycles):
                broker.ack_many(broker.receive(_QUEUE, max=scale.batch))
            yield watch.stop(scale.cycles * scale.batch)


def _consumer(address: str, scale: Scale, host: Host | None = None, *, partitioned: bool) -> Turns:
    """In a partition another consumer is registered, which takes nothing: its share is taken over, as that of one who is slow."""
    with rowq.connect(address) as broker:
        _fill(broker, scale, scale.backlog)
        for _ in range(scale.turns):
            _fill(broker, scale, (scale.cycles + 2) * scale.batch)
            other = broker.register(_QUEUE) if partitioned else None
            yield _turn(broker, scale, _Stopwatch(host), partitioned=partitioned)
            if other is not None:
                broker.unregister(_QUEUE, other.id)


def _turn(broker: rowq.Broker, scale: Scale, watch: _Stopwatch, *, partitioned: bool) -> Turn:
    """From the first message of the second batch to the first of a later one: in between is all that is done for a batch."""
    first, last = scale.batch + 1, scale.cycles * scale.batch + 1
    turns: list[Turn] = []
    is_over = threading.Event()
    count = 0

    def do_nothing(_delivery: rowq.Delivery) -> None:
        nonlocal count
        count += 1
        if count == first:
            watch.start()
        elif count == last:
            turns.append(watch.stop(last - first))
            is_over.set()

    with broker.consumer(_QUEUE, do_nothing, batch_size=scale.batch, partitioned=partitioned, wait=0.05):
        is_over.wait()
    return turns[0]


def _fill(broker: rowq.Broker, scale: Scale, count: int) -> None:
    for start in range(0, count, scale.batch):
        broker.send_many(_QUEUE, payloads(min(scale.batch, count - start)))
