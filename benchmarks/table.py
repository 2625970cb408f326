"""The findings as tables: what was measured, and what is claimed of it with the bar beside; for a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from benchmarks.harness import Bar, Chapter, Claim

_CLAIMS = ("", "median", "least", "most", "bar", "")
_COLOURS = {"pass": "green", "miss": "bold red", "": "default"}

Rows = Sequence[Sequence[str]]


def settlement(claim: Claim) -> str:
    if claim.bar is None:
        return ""
    return "not measured" if claim.holds is None else "pass" if claim.holds else "miss"


def to_rich(chapter: Chapter) -> Iterator[Table]:
    yield _rich(_measured(chapter), title=chapter.title)
    yield _rich([_CLAIMS, *_claimed(chapter)], notes=chapter.notes)


def to_markdown(chapter: Chapter) -> str:
    claimed = [[*row[:-1], f"**{row[-1]}**" if row[-1] else ""] for row in _claimed(chapter)]
    tables = [_markdown(_measured(chapter)), _markdown([_CLAIMS, *claimed])]
    return "\n\n".join([f"## {chapter.title}", *tables, *chapter.notes]) + "\n"


def _measured(chapter: Chapter) -> Rows:
    """A contestant a line, a gauge a column: medians."""
    gauges = list(dict.fromkeys(series.gauge for series in chapter.series))
    found = {(series.contestant, series.gauge): number(series.median, series.gauge.unit) for series in chapter.series}
    names = list(dict.fromkeys(series.contestant for series in chapter.series))
    return [["", *[gauge.what for gauge in gauges]], *[[name, *[found.get((name, gauge), "") for gauge in gauges]] for name in names]]


def _claimed(chapter: Chapter) -> Iterator[Sequence[str]]:
    for claim in chapter.claims:
        median, least, most = (number(value, claim.unit) for value in (claim.median, min(claim.values), max(claim.values)))
        yield claim.what, median, least, most, _bar(claim.bar, claim.unit), settlement(claim)


def number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{_spelt(unit)}"


def _bar(bar: Bar | None, unit: str) -> str:
    return "" if bar is None else f"{'≥' if bar.relation == 'at least' else '≤'} {bar.limit:g}{_spelt(unit)}"


def _spelt(unit: str) -> str:
    return unit if unit in ("x", "%") else f" {unit}"


def _rich(rows: Rows, title: str = "", notes: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", caption="\n".join(notes), caption_justify="left")
    for place, head in enumerate(rows[0]):
        widest = max((len(row[place]) for row in rows[1:]), default=0)
        table.add_column(head, justify="right" if place else "left", min_width=widest if place else None)  # only heads are folded
    for row in rows[1:]:
        table.add_row(*row[:-1], f"[{_COLOURS.get(row[-1], 'default')}]{row[-1]}[/]")
    return table


def _markdown(rows: Rows) -> str:
    ruler = ["---", *["--:"] * (len(rows[0]) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ruler, *rows[1:]))
