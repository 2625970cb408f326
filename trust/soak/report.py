"""A soak as it is told: on the terminal, as JSON, and as a page with plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import msgspec
from rich import box
from rich.table import Table

from rowq.spark.pipeline.chart import Points, lines
from rowq.spark.pipeline.page import Page, Section, render
from trust.soak.record import Reading, Record
from trust.soak.verdict import VERBS, Bar, judge

_MOST_READINGS = 300
"""That are written down: a plot has no room for more."""
_SAID = {True: "pass", False: "missed"}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    missed: list[str]
    bars: list[Bar]
    record: Record


def report_of(record: Record) -> Report:
    """The bars are judged by all readings; of these every few are written down."""
    bars, plan = judge(record), record.plan
    step = max(1, -(-len(record.readings) // _MOST_READINGS))
    much = f"--messages {plan.messages}" if plan.minutes is None else f"--minutes {plan.minutes:g}"
    return Report(
        command=f"python -m trust.soak --database {record.database} {much} --seed {plan.seed} --kept {plan.kept:g}",
        missed=[bar.what for bar in bars if bar.is_missed],
        bars=bars,
        record=msgspec.structs.replace(record, readings=record.readings[::step]),
    )


def tables(report: Report) -> list[Table | str]:
    record = report.record
    verdict = Table(box=box.SIMPLE_HEAD, title=f"{record.database}: {_summary(record)}", title_justify="left")
    for name in ("what must hold", "found", "bar", ""):
        verdict.add_column(name)
    for bar in report.bars:
        verdict.add_row(bar.what, bar.found, bar.limit, _verdict(bar))
    columns, rows = _latencies(record)
    latency = Table(box=box.SIMPLE_HEAD, title="milliseconds a call, part by part", title_justify="left")
    for name in columns:
        latency.add_column(name, justify="right")
    for row in rows:
        latency.add_row(*row)
    return [verdict, latency, f"missed: {'; '.join(report.missed) or 'nothing'}"]


def page(report: Report) -> str:
    """One file of HTML that needs nothing beside it."""
    record = report.record
    bars = Section(
        title="What must hold",
        sentence="A bar that a short run cannot tell is shown, and is neither met nor missed.",
        columns=("what", "found", "bar", "verdict"),
        rows=[(bar.what, bar.found, bar.limit, _verdict(bar)) for bar in report.bars],
    )
    columns, rows = _latencies(record)
    latency = Section(
        title="Latency",
        sentence=f"Milliseconds a call, of {record.plan.batch} messages each, by tenths of the run.",
        columns=columns,
        rows=rows,
    )
    facts = [("messages", f"{record.sent.count:,}"), ("minutes", f"{record.seconds / 60:.1f}"), ("a second", f"{_rate(record):,.0f}")]
    facts += [("bars missed", str(len(report.missed))), *record.machine.items()]
    return render(
        Page(title=f"Soak on {record.database}", facts=facts, sections=[bars, *_plots(record), latency], footer=f"{report.command}")
    )


def _plots(record: Record) -> list[Section]:
    of: dict[str, tuple[str, dict[str, Callable[[Reading], float]]]] = {
        "Memory": (
            "MB of its own that the server's process has, and those of the database's processes that work for it.",
            {"server": lambda each: each.server / 1e6, "backends": lambda each: each.backends / 1e6},
        ),
        "Files": (
            "MB of the database, of its log, and of pages that wait to be used again.",
            {"database": lambda each: each.file / 1e6, "log": lambda each: each.log / 1e6, "free": lambda each: each.free / 1e6},
        ),
        "Depth": ("Messages that were sent and are not done yet.", {"depth": lambda each: each.depth}),
        "Busy elsewhere": (
            "Percent of the machine that others used meanwhile: what latencies have to be read with.",
            {"others": lambda each: 100 * each.elsewhere},
        ),
    }
    return [_plot(title, sentence, {name: record.series(get) for name, get in kinds.items()}) for title, (sentence, kinds) in of.items()]


def _plot(title: str, sentence: str, series: dict[str, list[tuple[int, float]]]) -> Section:
    shown: dict[str, Points] = {name: points for name, points in series.items() if any(value for _, value in points)}
    return Section(
        title=title,
        sentence=sentence,
        plot=lines(shown, title),
        names=list(shown),
        columns=("", "least", "median", "most"),
        rows=[(name, *_figures([value for _, value in points])) for name, points in shown.items()],
    )


def _figures(values: Sequence[float]) -> list[str]:
    return [f"{value:,.0f}" for value in (min(values), median(values), max(values))]


def _latencies(record: Record) -> tuple[list[str], list[list[str]]]:
    verbs = [*VERBS, *(f"{verb} one" for verb in VERBS)]
    columns = ["part", *(f"{verb} {share}" for verb in verbs for share in ("p50", "p99"))]
    rows = []
    for number, part in enumerate(record.latencies, 1):
        found = [part.get(verb) for verb in verbs]
        rows.append([str(number), *(cell for each in found for cell in (("", "") if each is None else _both(each.p50, each.p99)))])
    return columns, rows


def _both(p50: float, p99: float) -> tuple[str, str]:
    return f"{p50 / 1000:.1f}", f"{p99 / 1000:.1f}"


def _summary(record: Record) -> str:
    return f"{record.sent.count:,} messages in {record.seconds / 60:.1f} minutes, {_rate(record):,.0f} a second, {record.calls:,} calls"


def _rate(record: Record) -> float:
    return record.sent.count / record.seconds if record.seconds else 0.0


def _verdict(bar: Bar) -> str:
    return _SAID[bar.holds] if bar.is_measured else "too short to tell"
