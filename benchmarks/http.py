"""The server under load, beside a bare echo on the same uvicorn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import rowq
from benchmarks.harness import Bar, Bench, Chapter, Claim, Contestant, Gauge, Scores, Timing, Turns, interleave
from benchmarks.payload import payloads
from benchmarks.scale import Scale
from benchmarks.serving import QUEUE, SECRET, echo_server, has_generator, load, rowq_server, write_body

REQUESTS = Gauge("requests", "/s")
MESSAGES = Gauge("messages", "/s")
CYCLES = Gauge("receive and ack", "/s")

_ECHO, _ECHO_OURS = "bare echo", "bare echo, rowq's connection layer"
_SEND, _BATCH, _CYCLE = "rowq, a message a request", "rowq, 100 messages a request", "rowq, receive and ack"
_MANY, _FEW = 64, 16
_AT_ONCE = 1_000
_ECHO_REFERENCE, _BATCH_REFERENCE = 25_000, 100_000


def run(bench: Bench) -> Chapter:
    title = "The server under load, on loopback"
    if not has_generator():
        return Chapter("http", title, [], [], ["wrk is not installed (`apt-get install wrk`): nothing was measured."])
    scores = interleave(bench, _contestants(bench.scale))
    notes = [
        "rowq is `rowq serve` with its defaults: sends are on disk before they are answered, audit on, metrics on, a key asked for.",
        "The load is wrk's, one thread. The echo reads a body and gives it back, on the same uvicorn with uvloop and httptools.",
        "rowq writes an answer with one system call where uvicorn takes two (decision 16). The echo answers by plain ASGI.",
    ]
    return Chapter("http", title, scores.series(), _claims(scores), notes)


def _claims(scores: Scores) -> list[Claim]:
    proportion = tuple(
        100 * (messages / echo) / (_BATCH_REFERENCE / _ECHO_REFERENCE)
        for messages, echo in zip(scores.of(_BATCH, MESSAGES), scores.of(_ECHO, REQUESTS), strict=True)
    )
    cycles = tuple(100 * own / echo for own, echo in zip(scores.of(_CYCLE, CYCLES), scores.of(_ECHO, REQUESTS), strict=True))
    return [
        Claim("single sends, 64 connections, of the bare echo", "%", scores.percent(REQUESTS, _SEND, _ECHO), Bar("at least", 60)),
        Claim("100 messages a request, 16 connections, of 4 messages for each echo", "%", proportion, Bar("at least", 100)),
        Claim("receive and ack, 64 connections, of the bare echo", "%", cycles, Bar("at least", 25)),
        Claim("single sends, of the echo on rowq's connection layer", "%", scores.percent(REQUESTS, _SEND, _ECHO_OURS)),
    ]


def _contestants(scale: Scale) -> dict[str, Contestant]:
    return {
        _ECHO: lambda room: _loaded(room, scale, echo_server, REQUESTS, "post", 1, _MANY),
        _ECHO_OURS: lambda room: _loaded(room, scale, lambda: echo_server("ours"), REQUESTS, "post", 1, _MANY),
        _SEND: lambda room: _loaded(room, scale, lambda: rowq_server(room / "queue.db"), REQUESTS, "post", 1, _MANY),
        _BATCH: lambda room: _loaded(room, scale, lambda: rowq_server(room / "queue.db"), MESSAGES, "post", 100, _FEW),
        _CYCLE: lambda room: _cycling(room, scale),
    }


def _loaded(
    room: Path, scale: Scale, server: Callable[[], AbstractContextManager[int]], gauge: Gauge, script: str, messages: int, connections: int
) -> Turns:
    body = write_body(room / "body.json", messages)
    with server() as port:
        load(port, script, body, connections=connections, seconds=1)
        for _ in range(scale.load_turns):
            timing = load(port, script, body, connections=connections, seconds=scale.load_seconds)
            yield {gauge: Timing(timing.seconds, timing.messages * messages)}


def _cycling(room: Path, scale: Scale) -> Turns:
    with rowq.connect(f"sqlite:///{room / 'queue.db'}") as broker:
        for start in range(0, scale.load_backlog, _AT_ONCE):
            broker.send_many(QUEUE, payloads(_AT_ONCE, start))
    body = write_body(room / "body.json", 1)
    with rowq_server(room / "queue.db") as port:
        for _ in range(scale.load_turns):
            yield {CYCLES: load(port, "cycle", body, connections=_MANY, seconds=scale.load_seconds)}
        with rowq.connect(f"http://127.0.0.1:{port}", api_key=SECRET) as broker:
            assert broker.stats(QUEUE).ready > 0, "the consumers ran dry: what was measured is asking in vain"
