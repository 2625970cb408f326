"""`python -m trust.sabotage`: breaks rowq in many ways, one at a time, and sees whether the tests notice each."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from trust.long_run import hear_interrupts, telling
from trust.sabotage.defects import DEFECTS
from trust.sabotage.runner import Finding, try_all

_COLOURS = {"caught": "green", "missed": "bold red", "unproven": "bold yellow", "moved": "bold yellow"}


def main(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this defect; may be repeated.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many are tried at a time.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Say which defects there are, and try none.")] = False,
) -> None:
    """Try deliberate defects on a copy of rowq's source. A defect is caught when a test fails with it that passes without it.

    Exits with 1 unless every one was caught.
    """
    chosen = [defect for defect in DEFECTS if not only or defect.name in only]
    if unknown := sorted(set(only or ()) - {defect.name for defect in chosen}):
        raise typer.BadParameter(f"there is no {unknown[0]!r}: --list says which there are", param_hint="--only")
    out = Console(highlight=False, soft_wrap=True)
    if listed:
        for defect in chosen:
            out.print(f"[bold]{defect.name}[/bold]  {defect.breaks}  (src/{defect.file})")
        return
    started = time.monotonic()
    found: list[Finding] = []
    with telling("The whole, then each defect", len(chosen) + 1) as advance:

        def tell(finding: Finding | None) -> None:
            if finding is not None:
                found.append(finding)
                if not as_json:
                    out.print(_line(finding))
            advance(len(found) + 1)

        findings = try_all(chosen, jobs=jobs, tell=tell)
    seconds = time.monotonic() - started
    counts = Counter(finding.status for finding in findings)
    if as_json:
        out.print_json(msgspec.json.encode({"seconds": seconds, "counts": counts, "findings": findings}).decode())
    else:
        out.print(f"{len(findings)} defects in {seconds:.0f} s: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    if counts["caught"] < len(findings):
        raise typer.Exit(1)


def _line(finding: Finding) -> str:
    told = f"by {finding.test}" if finding.status == "caught" else f"{finding.test} {finding.why}".strip()
    colour = _COLOURS[finding.status]
    return f"[{colour}]{finding.status:8}[/{colour}] {finding.name}  {finding.seconds:.1f} s  " + told.replace("[", r"\[")


if __name__ == "__main__":
    hear_interrupts()
    typer.run(main)
