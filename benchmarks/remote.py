"""The remote client beside the engine itself, and a message's way to a consumer that waits."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Scores, Timing, Turns, interleave
from benchmarks.payload import payload, payloads
from benchmarks.scale import Scale
from benchmarks.serving import QUEUE, SECRET, rowq_server

CYCLES = Gauge("messages", "/s")
ARRIVAL = Gauge("from send to a waiting consumer", "µs")

_REMOTE, _LOCAL, _WAITING = "RemoteBroker", "in process", "long poll"
_TEN_MS = 10_000


def run(bench: Bench) -> Chapter:
    scores = interleave(bench, _contestants(bench.scale))
    arrivals = _arrivals(bench)
    of_ten_ms = tuple(100 * micros / _TEN_MS for micros in arrivals.of(_WAITING, ARRIVAL))
    claims = [
        Claim("RemoteBroker, of the rate in process", "%", scores.percent(CYCLES, _REMOTE, _LOCAL), Bar("at least", 20)),
        Claim("median time to a waiting consumer, of 10 ms", "%", of_ten_ms, Bar("at most", 100)),
    ]
    notes = [
        f"Messages go in and out in batches of {bench.scale.batch}: send_many, receive, ack_many. `rowq serve` runs with its defaults."
    ]
    return Chapter("remote", "RemoteBroker, on loopback", scores.series() + arrivals.series(), claims, notes)


def _contestants(scale: Scale) -> dict[str, Contestant]:
    return {_REMOTE: lambda room: _remote(room, scale), _LOCAL: lambda room: _local(room, scale)}


def _remote(room: Path, scale: Scale) -> Turns:
    with rowq_server(room / "queue.db") as port, rowq.connect(f"http://127.0.0.1:{port}", api_key=SECRET) as broker:
        yield from _batches(broker, scale)


def _local(room: Path, scale: Scale) -> Turns:
    with rowq.connect(f"sqlite:///{room / 'queue.db'}") as broker:
        yield from _batches(broker, scale)


def _batches(broker: rowq.Broker, scale: Scale) -> Turns:
    for turn in range(scale.turns):
        batch = payloads(scale.batch, turn * scale.batch)
        started = time.perf_counter()
        for _ in range(scale.cycles):
            broker.send_many(QUEUE, batch)
            broker.ack_many(broker.receive(QUEUE, max=scale.batch))
        yield {CYCLES: Timing(time.perf_counter() - started, scale.cycles * scale.batch)}


def _arrivals(bench: Bench) -> Scores:
    """A consumer long-polls, a producer sends: how long from the call of send until the consumer has the message."""
    scores = Scores()
    for _ in range(bench.rounds):
        with bench.scratch.room() as room, rowq_server(room / "queue.db") as port:
            scores.add(_WAITING, {ARRIVAL: median(_arrival_times(f"http://127.0.0.1:{port}", bench.scale.samples // 3)) * 1e6})
    return scores


def _arrival_times(url: str, count: int) -> list[float]:
    arrived: list[float] = []
    ready = threading.Semaphore(0)

    def consume() -> None:
        with rowq.connect(url, api_key=SECRET) as broker:
            for _ in range(count):
                ready.release()
                delivery = broker.receive(QUEUE, wait=20)[0]
                arrived.append(time.perf_counter())
                broker.ack(delivery)

    consumer = threading.Thread(target=consume)
    consumer.start()
    sent = []
    with rowq.connect(url, api_key=SECRET) as broker:
        for number in range(count):
            ready.acquire()
            time.sleep(0.02)  # the consumer's request is on its way: let it arrive and wait
            sent.append(time.perf_counter())
            broker.send(QUEUE, payload(number))
    consumer.join()
    return [there - here for here, there in zip(sent, arrived, strict=True)]
