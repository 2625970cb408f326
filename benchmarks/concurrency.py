"""Many callers, one message a call, every call durable: in group commits, against one commit each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from pathlib import Path

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Timing, Turns, interleave
from benchmarks.payload import body, payload
from benchmarks.raw import RawQueue
from benchmarks.scale import Scale
from benchmarks.scratch import url

SEND = Gauge("send", "/s")

_LOOP, _LOOP_ALONE = "coroutines, group commit", "coroutines, a lock around each call"
_THREADS, _THREADS_ALONE = "threads, group commit", "threads, a lock around each call"
_ONE, _RAW = "one caller, one call after another", "raw SQL, one commit each"


def run(bench: Bench) -> Chapter:
    scale = bench.scale
    contestants: dict[str, Contestant] = {
        _LOOP: lambda room: _coroutines(room, scale, nullcontext),
        _LOOP_ALONE: lambda room: _coroutines(room, scale, asyncio.Lock),
        _THREADS: lambda room: _threads(room, scale, nullcontext),
        _THREADS_ALONE: lambda room: _threads(room, scale, threading.Lock),
        _ONE: lambda room: _one_caller(room, scale),
        _RAW: lambda room: _raw(room, scale),
    }
    scores = interleave(bench, contestants)
    claims = [
        Claim("coroutines, group commit, to one commit each", "x", scores.ratio(SEND, _LOOP, _LOOP_ALONE), Bar("at least", 10)),
        Claim("threads, group commit, to one commit each", "x", scores.ratio(SEND, _THREADS, _THREADS_ALONE), Bar("at least", 3)),
        Claim("coroutines, group commit, to one caller", "x", scores.ratio(SEND, _LOOP, _ONE)),
        Claim("threads, group commit, to one caller", "x", scores.ratio(SEND, _THREADS, _ONE)),
        Claim("coroutines, group commit, to raw SQL", "x", scores.ratio(SEND, _LOOP, _RAW)),
        Claim("threads, group commit, to raw SQL", "x", scores.ratio(SEND, _THREADS, _RAW)),
    ]
    notes = ["The lock makes the very same call a transaction of its own. Audit is on, as it is by default; raw SQL writes none."]
    return Chapter("concurrency", f"{scale.callers} callers, single sends, durability full", scores.series(), claims, notes)


def _coroutines(room: Path, scale: Scale, make_lock: Callable[[], AbstractAsyncContextManager[None]]) -> Turns:
    lock = make_lock()
    broker = rowq.connect_async(url(room / "queue.db", "full"))

    async def caller() -> None:
        for number in range(scale.calls_each):
            async with lock:
                await broker.send("bench", payload(number))

    async def turn() -> float:
        started = time.perf_counter()
        await asyncio.gather(*[caller() for _ in range(scale.callers)])
        return time.perf_counter() - started

    with asyncio.Runner() as loop:
        loop.run(broker.__aenter__())
        loop.run(turn())
        for _ in range(scale.caller_turns):
            yield _sent(scale, loop.run(turn()))
        loop.run(broker.close())


def _threads(room: Path, scale: Scale, make_lock: Callable[[], AbstractContextManager[object]]) -> Turns:
    lock = make_lock()

    def caller(start: threading.Barrier) -> None:
        start.wait()
        for number in range(scale.calls_each):
            with lock:
                broker.send("bench", payload(number))

    def turn() -> float:
        start = threading.Barrier(scale.callers + 1)
        threads = [threading.Thread(target=caller, args=(start,)) for _ in range(scale.callers)]
        for thread in threads:
            thread.start()
        start.wait()
        started = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - started

    with rowq.connect(url(room / "queue.db", "full")) as broker:
        turn()
        for _ in range(scale.caller_turns):
            yield _sent(scale, turn())


def _one_caller(room: Path, scale: Scale) -> Turns:
    with rowq.connect(url(room / "queue.db", "full")) as broker:
        broker.send("bench", payload(0))
        for _ in range(scale.caller_turns):
            started = time.perf_counter()
            for number in range(scale.callers * scale.calls_each):
                broker.send("bench", payload(number))
            yield _sent(scale, time.perf_counter() - started)


def _raw(room: Path, scale: Scale) -> Turns:
    with RawQueue(room / "queue.db", synchronous="FULL") as queue:
        bodies = [body(number) for number in range(scale.callers * scale.calls_each)]
        queue.send(bodies[:1])
        for _ in range(scale.caller_turns):
            started = time.perf_counter()
            for each in bodies:
                queue.send([each])
            yield _sent(scale, time.perf_counter() - started)


def _sent(scale: Scale, seconds: float) -> dict[Gauge, Timing]:
    return {SEND: Timing(seconds, scale.callers * scale.calls_each)}
