"""The findings on paper: a JSON file a day for programs, and latest.md for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Chapter
from benchmarks.table import settlement, to_markdown

RESULTS = Path(__file__).parent / "results"

_READING = """\
Contestants take many short turns, side by side. `median`, `least` and `most` are over the rounds. Ratios are taken within a round,
where both sides had the same neighbours, and a bar is held against the median of them.
"""


def write(chapters: Sequence[Chapter], machine: dict[str, str], command: str, rounds: int, folder: Path = RESULTS) -> list[Path]:
    """Returns the files."""
    day = datetime.now(UTC).date().isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{day}.json", folder / "latest.md"
    found = {"date": day, "command": command, "rounds": rounds, "machine": machine, "chapters": [_plain(chapter) for chapter in chapters]}
    data.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    page.write_text(to_page(chapters, machine, command, rounds, day), encoding="utf-8")
    return [data, page]


def to_page(chapters: Sequence[Chapter], machine: dict[str, str], command: str, rounds: int, day: str) -> str:
    claims = [claim for chapter in chapters for claim in chapter.claims if claim.bar is not None]
    met = sum(1 for claim in claims if claim.holds)
    head = [
        f"# Figures of {day}\n",
        f"`{command}`, {rounds} rounds: {met} of {len(claims)} bars met.\n",
        "| the machine | |\n|---|---|",
        *[f"| {name} | {fact} |" for name, fact in machine.items()],
        f"\n{_READING}",
    ]
    return "\n".join([*head, *[to_markdown(chapter) for chapter in chapters]])


def _plain(chapter: Chapter) -> dict[str, Any]:
    return {
        "name": chapter.name,
        "title": chapter.title,
        "series": [
            {"contestant": each.contestant, "what": each.gauge.what, "unit": each.gauge.unit, "median": each.median, "values": each.values}
            for each in chapter.series
        ],
        "claims": [
            {
                "what": claim.what,
                "unit": claim.unit,
                "median": claim.median,
                "values": claim.values,
                "bar": None if claim.bar is None else claim.bar._asdict(),
                "verdict": settlement(claim) or None,
            }
            for claim in chapter.claims
        ],
        "notes": chapter.notes,
    }
