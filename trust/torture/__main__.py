"""`python -m trust.torture`: on one database or on all, until both goals are reached or the time is over."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated

import msgspec
import typer

from trust.long_run import hear_interrupts, telling
from trust.torture.database import KINDS
from trust.torture.report import Report
from trust.torture.runner import Goals, run
from trust.torture.scene import new_folder

_ALL = "all"


def main(
    database: Annotated[str, typer.Option("--database", help=f"One of {', '.join(KINDS)}, or {_ALL}.")] = _ALL,
    seed: Annotated[int, typer.Option("--seed", help="What is tried: faults, their order, and what everybody does.")] = 1,
    operations: Annotated[int, typer.Option("--operations", min=1, help="So many calls are answered at least.")] = 1_000_000,
    faults: Annotated[int, typer.Option("--faults", min=0, help="So many faults strike at least.")] = 200,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="A run ends then, whatever it has reached.")] = 2400,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep logbooks also where all is well.")] = False,
    folder: Annotated[Path | None, typer.Option("--folder", help="Where logbooks are put.", show_default=False)] = None,
) -> None:
    """Torture rowq: producers, consumers and operators in processes of their own, while everything fails that can.

    Exits with 1 if a promise was broken or a goal was missed; then what everybody has written down is kept.
    """
    kinds = KINDS if database == _ALL else (database,)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose of {', '.join(KINDS)}, {_ALL}", param_hint="--database")
    goals = Goals(operations, faults, seconds)
    reports = [_torture(kind, seed, goals, folder or Path(gettempdir(), "rowq-torture"), keep=keep, is_quiet=as_json) for kind in kinds]
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(reports), indent=2) + b"\n")
    raise typer.Exit(0 if all(report.is_good for report in reports) else 1)


def _torture(kind: str, seed: int, goals: Goals, place: Path, *, keep: bool, is_quiet: bool) -> Report:
    logbooks = new_folder(place, kind, seed)
    with telling(f"{kind}: operations", goals.operations) as advance:
        report = run(kind, seed, goals, logbooks, advance)
    if not is_quiet:
        print(*report.lines(), sep="\n", flush=True)
    if report.is_good and not keep:
        shutil.rmtree(logbooks)
    return report


if __name__ == "__main__":
    hear_interrupts()
    typer.run(main)
