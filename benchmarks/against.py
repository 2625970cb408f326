"""`python -m benchmarks.against COMMIT`: CPU time a message of another commit and of this tree, in turns, on one machine.

Rates differ by a tenth from one minute to the next, CPU time by less, and the ratio of two runs side by side by least of all. So each round
runs the old tree and the new one, in changing order, and what counts is the median of the rounds' ratios.
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

from benchmarks.against_work import WORK
from benchmarks.scratch import scratch
from benchmarks.servers import POSTGRESQL, Host
from tests.support.servers import own_postgresql

ROOT = Path(__file__).parent.parent


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
        host = stack.enter_context(_postgresql()) if any(name.startswith("postgresql") for name in names) else None
        figures = _measure({"old": old, "new": ROOT}, names, rounds, scale, host)
    table = Table("work", "old µs", "new µs", "new / old", "rounds from", "to", title=f"CPU time a message, {commit} and this tree")
    for name in names:
        ratios = sorted(new / old for old, new in zip(figures["old", name], figures["new", name], strict=True))
        medians = [f"{statistics.median(figures[side, name]):.1f}" for side in ("old", "new")]
        table.add_row(name, *medians, f"{statistics.median(ratios):.3f}", f"{ratios[0]:.3f}", f"{ratios[-1]:.3f}")
    Console().print(table)


def _measure(trees: dict[str, Path], names: list[str], rounds: int, scale: float, host: Host | None) -> dict[tuple[str, str], list[float]]:
    figures: dict[tuple[str, str], list[float]] = {(side, name): [] for side in trees for name in names}
    for number in range(rounds):
        for name in names:
            for side in sorted(trees, reverse=number % 2 == 0):
                with tempfile.TemporaryDirectory() as folder, _database(name, host, folder) as url:
                    figures[side, name].append(_run(trees[side], name, url, scale))
        Console(stderr=True).print(f"round {number + 1} of {rounds}")
    return figures


def _run(tree: Path, name: str, url: str, scale: float) -> float:
    """One kind of work, by the code of one tree; the work itself is the same for both, and uses public names only."""
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}
    words = [sys.executable, "-m", "benchmarks.against_work", name, url, str(scale)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed in {tree}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found["cpu_us"]


def _database(name: str, host: Host | None, folder: str) -> AbstractContextManager[str]:
    return host.database() if host is not None and name.startswith("postgresql") else nullcontext(f"sqlite:///{folder}/work.db")


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
def _postgresql() -> Iterator[Host]:
    with scratch() as place, place.room() as room, own_postgresql(room, **POSTGRESQL) as server:
        yield Host(server)


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


if __name__ == "__main__":
    typer.run(main)
