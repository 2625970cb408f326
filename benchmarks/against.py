"""`python -m benchmarks.against COMMIT`: CPU time and wall time a message of another commit and of this tree, in turns, on one machine.

Rates differ by a tenth from one minute to the next, CPU time by less, and the ratio of two runs side by side by least of all. So each round
runs the old tree and the new one, in changing order, and what counts is the median of the rounds' ratios. Wall time includes the database's
work and all that else runs on the machine: it is there to be looked at, not to be relied on.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.against_work import WORK, Figure
from benchmarks.scratch import scratch
from benchmarks.servers import MARIADB, POSTGRESQL, Host
from tests.support.servers import own_mariadb, own_postgresql

ROOT = Path(__file__).parent.parent
_SERVERS = {"postgresql": (own_postgresql, POSTGRESQL), "mariadb": (own_mariadb, MARIADB)}
"""By the first word of a work's name."""


def main(
    commit: Annotated[str, typer.Argument(help="What to compare with: a commit, a branch, a tag.")],
    rounds: Annotated[int, typer.Option("--rounds", min=1)] = 12,
    only: Annotated[list[str] | None, typer.Option("--only", help=f"Only one of {', '.join(WORK)}; may be repeated.")] = None,
    scale: Annotated[float, typer.Option("--scale", min=0.01, help="How much work a round does.")] = 1.0,
) -> None:
    names = only or list(WORK)
    if unknown := [name for name in names if name not in WORK]:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose of {', '.join(WORK)}", param_hint="--only")
    with _tree(commit) as old, ExitStack() as stack:
        hosts = {word: stack.enter_context(_host(word)) for word in _SERVERS if any(name.startswith(word) for name in names)}
        figures = _measure({"old": old, "new": ROOT}, names, rounds, scale, hosts)
    table = Table("work", "old µs", "new µs", "new / old", "rounds from", "to", "wall", title=f"CPU time a message, {commit} and this tree")
    for name in names:
        ratios, walls = _ratios(figures, name, "cpu_us"), _ratios(figures, name, "wall_us")
        medians = [f"{statistics.median(figure.cpu_us for figure in figures[side, name]):.1f}" for side in ("old", "new")]
        shown = [f"{ratio:.3f}" for ratio in (statistics.median(ratios), ratios[0], ratios[-1], statistics.median(walls))]
        table.add_row(name, *medians, *shown)
    Console().print(table)


def _ratios(figures: dict[tuple[str, str], list[Figure]], name: str, field: str) -> list[float]:
    rounds = zip(figures["old", name], figures["new", name], strict=True)
    return sorted(getattr(new, field) / getattr(old, field) for old, new in rounds)


def _measure(
    trees: dict[str, Path], names: list[str], rounds: int, scale: float, hosts: dict[str, Host]
) -> dict[tuple[str, str], list[Figure]]:
    figures: dict[tuple[str, str], list[Figure]] = {(side, name): [] for side in trees for name in names}
    for number in range(rounds):
        for name in names:
            for side in sorted(trees, reverse=number % 2 == 0):
                with tempfile.TemporaryDirectory() as folder, _database(name, hosts, folder) as url:
                    figures[side, name].append(_run(trees[side], name, url, scale))
        Console(stderr=True).print(f"round {number + 1} of {rounds}")
    return figures


def _run(tree: Path, name: str, url: str, scale: float) -> Figure:
    """One kind of work, by the code of one tree; the work itself is the same for both, and uses public names only."""
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}
    words = [sys.executable, "-m", "benchmarks.against_work", name, url, str(scale)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed in {tree}:\n{done.stderr}")
    return Figure(**json.loads(done.stdout))


def _database(name: str, hosts: dict[str, Host], folder: str) -> AbstractContextManager[str]:
    host = hosts.get(name.partition(" ")[0])
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
