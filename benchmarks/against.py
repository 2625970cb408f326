"""`python -m benchmarks --against COMMIT`: CPU time a message and rate of another commit and of this tree, in turns, on one machine.

Rates differ by a tenth from one minute to the next, CPU time by less, and the ratio of two runs side by side by least of all. So each round
runs the old tree and the new one, in changing order, and what counts is the median of the rounds' ratios. The rate includes the database's
work and all that else runs on the machine: it is there to be looked at, not to be relied on.

`python -m benchmarks.against COMMIT` takes a part of the work by name, and a size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.against_work import WORK, Figure
from benchmarks.harness import Bar, Chapter, Claim, Gauge, Progress, Scores
from benchmarks.scratch import scratch
from benchmarks.servers import MARIADB, POSTGRESQL, Host
from benchmarks.table import to_rich
from tests.support.servers import Unavailable, own_mariadb, own_postgresql

ROOT = Path(__file__).parent.parent
ROUNDS = 12
NO_MORE = Bar("at most", round(1 / 0.97, 3))
"""CPU time that a message may cost, of what it cost before: the rest is noise."""
_SERVERS = {"postgresql": (own_postgresql, POSTGRESQL), "mariadb": (own_mariadb, MARIADB)}
_CPU, _SERVER_CPU = "CPU", "server CPU"
_RATE = Gauge("rate, new to old", "x")


class CannotRun(Exception):
    """A work that a tree does not do."""


def main(
    commit: Annotated[str, typer.Argument(help="What to compare with: a commit, a branch, a tag.")],
    rounds: Annotated[int, typer.Option("--rounds", min=1)] = ROUNDS,
    only: Annotated[list[str] | None, typer.Option("--only", help=f"Only one of {', '.join(WORK)}; may be repeated.")] = None,
    scale: Annotated[float, typer.Option("--scale", min=0.01, help="How much work a round does.")] = 1.0,
) -> None:
    names = only or list(WORK)
    if unknown := [name for name in names if name not in WORK]:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose of {', '.join(WORK)}", param_hint="--only")
    Console().print(*to_rich(compare(commit, rounds, scale, _Lines(), names)))


class _Lines(Progress):
    def step(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")


def compare(commit: str, rounds: int, scale: float, progress: Progress, names: list[str] | None = None) -> Chapter:
    names, scores, notes = list(names or WORK), Scores(), []
    progress.expect(rounds)
    with _tree(commit) as old, ExitStack() as stack:
        hosts: dict[str, Host] = {}
        for word in _SERVERS:
            try:
                if word in map(_word, names):
                    hosts[word] = stack.enter_context(_host(word))
            except Unavailable as missing:
                names = [name for name in names if _word(name) != word]
                notes.append(f"{missing} Nothing was measured on it.")
        for number in range(rounds):
            progress.step(f"round {number + 1} of {rounds}")
            for name in list(names):
                try:
                    _compare({"old": old, "new": ROOT}, name, hosts, scale, scores, is_new_first=number % 2 == 0)
                except CannotRun as error:
                    names.remove(name)
                    notes.append(str(error))
    notes += [f"CPU is that of rowq's processes, or of its server. A bar is missed above 1/0.97. Size {scale:g} of a round."]
    claims = [
        Claim(f"{name}: {what}", "x", ratios, NO_MORE)
        for name in names
        for what in ((_CPU, _SERVER_CPU) if _word(name) in hosts else (_CPU,))
        if (ratios := _ratios(scores, name, what))
    ]
    return Chapter("against", f"CPU time a message: this tree (new) to {commit} (old)", scores.series(), claims, notes)


def _compare(trees: dict[str, Path], name: str, hosts: dict[str, Host], scale: float, scores: Scores, *, is_new_first: bool) -> None:
    host, figures = hosts.get(_word(name)), {}
    for side in sorted(trees, reverse=not is_new_first):
        with tempfile.TemporaryDirectory() as folder, _database(host, folder) as url:
            figures[side] = _run(side, trees[side], name, url, scale, host)
    scores.add(name, {_gauge(_CPU, side): figures[side].cpu_us for side in trees})
    scores.add(name, {_RATE: figures["old"].wall_us / figures["new"].wall_us})
    if host is not None:
        scores.add(name, {_gauge(_SERVER_CPU, side): figures[side].server_us for side in trees})


def _run(side: str, tree: Path, name: str, url: str, scale: float, host: Host | None) -> Figure:
    """One kind of work, by the code of one tree; the work itself is the same for both, and uses public names only."""
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}
    words = [sys.executable, "-m", "benchmarks.against_work", name, url, str(scale), str(host.pid if host else 0)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode and side == "old":
        raise CannotRun(f"{name} cannot run in the old tree: {done.stderr.strip().rpartition(chr(10))[2]}")
    if done.returncode:
        raise SystemExit(f"{name} failed in {tree}:\n{done.stderr}")
    return Figure(**json.loads(done.stdout))


def _word(name: str) -> str:
    """The first one: a work's database, or that it goes over HTTP."""
    return name.partition(" ")[0]


def _ratios(scores: Scores, name: str, what: str) -> tuple[float, ...]:
    """None where one took less than the system's clock counts."""
    old, new = (scores.of(name, _gauge(what, side)) for side in ("old", "new"))
    return tuple(after / before for before, after in zip(old, new, strict=True)) if all(old) else ()


def _gauge(what: str, side: str) -> Gauge:
    return Gauge(f"{what}, {side}", "µs")


def _database(host: Host | None, folder: str) -> AbstractContextManager[str]:
    return nullcontext(f"sqlite:///{folder}/work.db") if host is None else host.database()


@contextmanager
def _tree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


@contextmanager
def _host(word: str) -> Iterator[Host]:
    own, settings = _SERVERS[word]
    with scratch() as place, place.room() as room, own(room, **settings) as server:
        yield Host(server)


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


if __name__ == "__main__":
    typer.run(main)
