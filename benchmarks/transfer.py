"""A million messages in and out by the command line: how fast, and in how much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Bar, Bench, Chapter, Claim, Gauge, Scores
from benchmarks.payload import body
from benchmarks.scratch import url

RATE = Gauge("messages", "/s")
PEAK = Gauge("memory at most", "MB")

_LOAD, _DUMP = "rowq load", "rowq dump"
_ROWQ = [sys.executable, "-c", "from rowq.cli.main import main; main()"]
_LIMIT_MB = 200


def run(bench: Bench) -> Chapter:
    scores = Scores()
    bench.progress.expect(1 + 2 * bench.rounds)
    with bench.scratch.room() as room:
        lines, made = room / "messages.jsonl", room / "loaded.db"
        bench.progress.step("writing lines")
        _write(lines, bench.scale.lines)
        for number in range(bench.rounds):
            bench.progress.step(f"round {number + 1} of {bench.rounds}: load")
            scores.add(_LOAD, _load(bench, made, lines))
            bench.progress.step(f"round {number + 1} of {bench.rounds}: dump")
            scores.add(_DUMP, _dump(bench, made, room / "dump.jsonl"))
    claims = [Claim(f"{name}, memory at most", "MB", scores.of(name, PEAK), Bar("at most", _LIMIT_MB)) for name in (_LOAD, _DUMP)]
    return Chapter("transfer", f"{bench.scale.lines:,} messages as JSON Lines, by processes of their own", scores.series(), claims)


def _load(bench: Bench, made: Path, lines: Path) -> dict[Gauge, float]:
    for file in made.parent.glob(made.name + "*"):
        file.unlink()
    return _watch(bench, ["--url", url(made, "send"), "load", "bench", str(lines)])


def _dump(bench: Bench, made: Path, target: Path) -> dict[Gauge, float]:
    readings = _watch(bench, ["--url", url(made, "send"), "dump", "bench", str(target)])
    with target.open("rb") as dumped:
        assert sum(1 for _ in dumped) == bench.scale.lines, "the dump does not hold what was loaded"
    target.unlink()
    return readings


def _watch(bench: Bench, arguments: list[str]) -> dict[Gauge, float]:
    """Through a small process in between: a child's peak counts from its parent's, and ours is large by now."""
    command = [sys.executable, "-m", "benchmarks.watched", *_ROWQ, *arguments]
    answer = subprocess.run(command, capture_output=True, check=False, text=True, cwd=Path(__file__).parents[1])
    if answer.returncode:
        raise RuntimeError(f"rowq {' '.join(arguments[2:3])} failed: {answer.stderr.strip()}")
    seen = json.loads(answer.stdout)
    return {RATE: bench.scale.lines / seen["seconds"], PEAK: seen["peak_bytes"] / 1e6}


def _write(file: Path, count: int) -> None:
    with file.open("wb") as lines:
        for number in range(count):
            lines.write(b'{"payload":' + body(number) + b"}\n")
