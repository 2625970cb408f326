"""`python -m benchmarks`: everything, or one benchmark by name; a table at the end, and a record of a whole run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich import progress
from rich.console import Console

from benchmarks import against, batches, concurrency, consumers, depth, http, machine, mariadb, record, remote, single, transfer
from benchmarks.harness import Bench, Chapter, Progress
from benchmarks.postgresql import batches as postgresql_batches
from benchmarks.postgresql import callers as postgresql_callers
from benchmarks.postgresql import endurance as postgresql_endurance
from benchmarks.postgresql import processes as postgresql_processes
from benchmarks.postgresql import snapshot as postgresql_snapshot
from benchmarks.scale import FULL, QUICK
from benchmarks.scratch import scratch
from benchmarks.spark import chapter as spark
from benchmarks.table import to_rich

BENCHMARKS: dict[str, Callable[[Bench], Chapter]] = {
    "concurrency": concurrency.run,
    "batches": batches.run,
    consumers.NAME: consumers.run,
    "single": single.run,
    "depth": depth.run,
    "transfer": transfer.run,
    "http": http.run,
    "remote": remote.run,
    postgresql_callers.NAME: postgresql_callers.run,
    postgresql_batches.NAME: postgresql_batches.run,
    consumers.ON_POSTGRESQL: consumers.run_on_postgresql,
    postgresql_processes.NAME: postgresql_processes.run,
    postgresql_snapshot.NAME: postgresql_snapshot.run,
    postgresql_endurance.NAME: postgresql_endurance.run,
    "mariadb": mariadb.run,
    spark.NAME: spark.run,
}

_ROUNDS = 3
_AGAINST = "against"


def main(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help=f"Only one of {', '.join(BENCHMARKS)}; may be repeated.")
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option("--against", metavar="COMMIT", help="Compare the CPU time of that commit with this tree's; with --only, too."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds", min=1, help=f"How often the contestants take turns: 3 times, and {against.ROUNDS} times against a commit."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: to see that it runs. The bars are not meant for them.")] = False,
    folder: Annotated[Path | None, typer.Option("--folder", help="Where the databases are put: a real disk.", show_default=False)] = None,
) -> None:
    """Measure rowq, its peers and raw SQL in one run.

    Exits with 1 if a bar was missed. A whole run at full size is recorded in benchmarks/results.
    """
    names = only or ([] if commit else list(BENCHMARKS))
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose of {', '.join(BENCHMARKS)}", param_hint="--only")
    out = Console()
    started = time.monotonic()
    scale = QUICK if quick else FULL
    with scratch(folder) as place, _Bar([*names, *([_AGAINST] if commit else [])]) as shown:
        facts = machine.facts(place.folder)
        out.print(" · ".join(f"{name} {fact}" for name, fact in facts.items()), highlight=False)
        if facts["file system"] in ("tmpfs", "ramfs"):
            out.print("This folder is memory: a durable commit costs nothing here. Choose another with --folder.", style="bold red")
        chapters = []
        for name in names:
            shown.begin(name)
            chapters.append(BENCHMARKS[name](Bench(scale, rounds or _ROUNDS, place, shown)))
        if commit:
            shown.begin(_AGAINST)
            chapters.append(against.compare(commit, rounds or (2 if quick else against.ROUNDS), scale.against, shown))
    for chapter in chapters:
        out.print(*to_rich(chapter), "")
    missed = [claim.what for chapter in chapters for claim in chapter.claims if claim.holds is False]
    out.print(f"{time.monotonic() - started:.0f} s; missed: {'; '.join(missed) or 'nothing'}", highlight=False)
    if quick or only or commit:
        out.print("Not recorded: only a whole run at full size is.")
    else:
        files = record.write(chapters, facts, f"python -m benchmarks --rounds {rounds or _ROUNDS}", rounds or _ROUNDS)
        out.print(f"Recorded: {', '.join(file.name for file in files)} in benchmarks/results", highlight=False)
    if missed and not quick:
        raise typer.Exit(1)


class _Bar(Progress):
    """A bar on stderr: which benchmark, which step of it. It is drawn between steps only, since drawing takes the interpreter."""

    def __init__(self, names: list[str]) -> None:
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        )
        self._shown = progress.Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._tasks = {name: self._shown.add_task(name, total=None, start=False) for name in names}
        self._now = names[0]
        self._begun = 0
        self._started = time.monotonic()

    def __enter__(self) -> _Bar:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def begin(self, name: str) -> None:
        self._finish()
        self._now, self._begun = name, 0
        self._shown.start_task(self._tasks[name])
        if not self._shown.console.is_terminal:  # where no bar is drawn
            self._shown.console.print(f"{time.monotonic() - self._started:4.0f} s: {name}", highlight=False)

    def expect(self, steps: int) -> None:
        self._shown.update(self._tasks[self._now], total=self._begun + steps)

    def step(self, text: str) -> None:
        self._shown.update(self._tasks[self._now], completed=self._begun, description=f"{self._now} · {text}", refresh=True)
        self._begun += 1

    def _finish(self) -> None:
        self._shown.update(self._tasks[self._now], completed=self._begun, description=self._now)


if __name__ == "__main__":
    typer.run(main)
