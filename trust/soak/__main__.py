"""`python -m trust.soak`: ten million messages through one server on each database, and whether anything grew or slowed down."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from trust.long_run import hear_interrupts, telling
from trust.soak.record import Plan
from trust.soak.report import Report, page, report_of, tables
from trust.soak.run import soak
from trust.soak.scene import DATABASES

RESULTS = Path(__file__).parents[1] / "results"
WHOLE = 10_000_000
WIDTH = 140
"""Of a file that the tables are written to: it has no width of its own."""


class Database(StrEnum):
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    ALL = "all"


def main(
    database: Annotated[Database, typer.Option(help="Which one, or all.")] = Database.ALL,
    messages: Annotated[int, typer.Option(min=1_000, help="How many pass through each.")] = WHOLE,
    minutes: Annotated[
        float | None, typer.Option(min=0.05, help="No more are sent after that.", show_default="as many as it takes")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the mixture of calls.")] = 1,
    kept: Annotated[float, typer.Option(min=0.5, help="Seconds for which history, audit and dead letters are kept.")] = 15,
    clients: Annotated[int, typer.Option(min=1, help="Processes that send and receive.")] = 2,
    batch: Annotated[int, typer.Option(min=2, max=1_000, help="Messages in a call.")] = 250,
    json: Annotated[bool, typer.Option("--json", help="Print everything that was measured, as JSON.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(help="A folder for soak-<database>.json and .html; of a whole run it is trust/results.", show_default=False),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the databases are put: a real disk.", show_default=False)] = None,
) -> None:
    """Soak rowq, and judge it. Exits with 1 if a bar was missed."""
    out = Console()
    if not out.is_terminal:
        out.width = WIDTH
    reports = []
    plan = Plan(messages=messages, minutes=minutes, seed=seed, kept=kept, clients=clients, batch=batch)
    for name in DATABASES if database is Database.ALL else [database.value]:
        with telling(f"soak {name}", messages) as told:
            report = report_of(soak(name, plan, folder, told))
        reports.append(report)
        if place := record or (RESULTS if messages >= WHOLE and minutes is None else None):
            _write(place, report)
        if not json:
            out.print(*tables(report), sep="\n")
    if json:
        print(msgspec.json.encode(reports).decode())
    if any(report.missed for report in reports):
        raise typer.Exit(1)


def _write(folder: Path, report: Report) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"soak-{report.record.database}"
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    (folder / f"{name}.html").write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    hear_interrupts()
    typer.run(main)
