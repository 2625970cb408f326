"""One process that fuses single messages, and two on the same queue; and how busy the cores are, which PostgreSQL shares."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import rowq
from benchmarks.cores import Cores
from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores, Timing
from benchmarks.payload import payloads
from benchmarks.postgresql.together import QUEUE
from benchmarks.scale import Scale
from benchmarks.servers import Host, on_postgresql

NAME, TITLE = "postgresql-processes", "PostgreSQL: two processes of callers beside one"

CYCLE = Gauge("send, receive and ack", "/s")
BUSY = Gauge("least busy core", "%")

_ONE, _TWO = "one process", "two processes"
_ENOUGH, _SATURATED = 1.3, 85
_AT_REST = 15
"""What the cores may do while we rest, in percent. With more than that, others keep them busy, and full cores prove nothing of rowq."""
_PATIENCE = 30


def run(bench: Bench) -> Chapter:
    return on_postgresql(bench, NAME, TITLE, _measure)


def _measure(bench: Bench, host: Host) -> Chapter:
    scores, rest = Scores(), []
    bench.progress.expect(bench.rounds)
    for number in range(bench.rounds):
        bench.progress.step(f"round {number + 1} of {bench.rounds}")
        rest.append(_busy_at_rest(bench.scale.process_seconds))
        for name, readings in _round(host, bench.scale).items():
            scores.add(name, readings)
    notes = [
        host.note,
        f"{bench.scale.callers} callers a process, each with a message at a time, over a backlog; all on one queue, no audit.",
        f"What must hold is a rate of {_ENOUGH} times, or no core left to give more: each above {_SATURATED} % busy with two processes.",
        f"The latter counts only on a quiet machine, up to {_AT_REST} %: before the rounds its busiest core was at {max(rest):.0f} %.",
    ]
    return Chapter(NAME, TITLE, scores.series(), _claims(scores, max(rest)), notes)


def _claims(scores: Scores, rest: float) -> list[Claim]:
    """One bar of the two: more cores than are there cannot be asked for."""
    ratios, busy = scores.ratio(CYCLE, _TWO, _ONE), scores.of(_TWO, BUSY)
    is_saturated = median(ratios) < _ENOUGH and median(busy) > _SATURATED and rest <= _AT_REST
    return [
        Claim("two processes to one", "x", ratios, None if is_saturated else Bar("at least", _ENOUGH)),
        Claim("least busy core, two processes", "%", busy, Bar("at least", _SATURATED) if is_saturated else None),
        Claim("least busy core, one process", "%", scores.of(_ONE, BUSY)),
    ]


def _busy_at_rest(seconds: float) -> float:
    """The busiest core, while nobody of ours works."""
    cores = Cores()
    time.sleep(seconds)
    return max(cores.busy())


def _round(host: Host, scale: Scale) -> dict[str, dict[Gauge, float]]:
    with host.database() as url, ExitStack() as stack:
        with rowq.connect(url) as broker:
            broker.configure(QUEUE, audit=False)
            broker.send_many(QUEUE, payloads(scale.few))
        pair = [stack.enter_context(_process(url, scale.callers)) for _ in range(2)]
        sums = {_ONE: Timing(0, 0), _TWO: Timing(0, 0)}
        busy: dict[str, list[float]] = {_ONE: [], _TWO: []}
        for turn in range(scale.load_turns):
            alone = pair[turn % 2]
            for name, workers in ((_ONE, [alone]), (_TWO, pair)):
                cores = Cores()
                sums[name] += _turn(workers, scale.process_seconds)
                busy[name].append(min(cores.busy()))
        return {name: {CYCLE: sums[name].reading(CYCLE), BUSY: median(busy[name])} for name in sums}


def _turn(workers: list[subprocess.Popen[str]], seconds: float) -> Timing:
    started = time.perf_counter()
    for worker in workers:
        _tell(worker, f"{seconds}")
    messages = sum(int(_answer(worker)) for worker in workers)
    return Timing(time.perf_counter() - started, messages)


@contextmanager
def _process(url: str, callers: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.postgresql.together", url, str(callers)]
    here = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here) as process:
        try:
            assert _answer(process) == "ready"
            yield process
            _tell(process, "")
            process.wait(_PATIENCE)
        finally:
            process.kill()


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the process has ended before its time"
    return line
