"""From the reports to the page: small tables are fetched, and each becomes a section with a plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowq.spark.pipeline import chart, measure
from rowq.spark.pipeline.page import Page, Section

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rowq.spark.pipeline.report import Reports

_MOST_ROWS = 200
_MOST_SERIES = chart.COLOURS
_HOURS, _DAYS = 3_600_000, 86_400_000
_LONG = 14 * _DAYS
"""Longer times are drawn by day."""

Record = dict[str, Any]
Table = Sequence[Record]


def overview(found: Reports, *, title: str, now: int) -> Page:
    """Runs the reports and puts them on a page."""
    tables = _fetched(found)
    step = _step(tables)
    sent = sum(row["sent"] for row in tables["throughput"])
    acked, dead = (sum(row[name] for row in tables["throughput"]) for name in ("acked", "dead"))
    slow = max((row["wait_p99"] for row in tables["by_queue"]), default=None)
    facts = [
        ("Messages sent", f"{sent:,}"),
        ("Done", f"{acked:,}"),
        ("Dead letters", f"{dead:,}"),
        ("Share that died", chart.amount(100 * dead / (acked + dead), "%") if acked + dead else "none"),
        ("Longest p99 wait", "unknown" if slow is None else chart.amount(slow, "ms")),
    ]
    sections = [
        _throughput(tables["throughput"], step),
        _depth(tables["depth"], step),
        _latency(tables["by_step"], tables["by_queue"], "wait", "Waiting", "From sending to the last lease"),
        _latency(tables["by_step"], tables["by_queue"], "processing", "Processing", "From the last lease to the end"),
        _retries(tables["retries"], step),
        _dead(tables["dead_letters"]),
        _failures(tables["failures"]),
        _consumers(tables["consumers"]),
    ]
    made = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Page(title=title, facts=facts, sections=sections, footer=f"Made by rowq on {made}. Times are UTC.")


def _fetched(found: Reports) -> Mapping[str, Table]:
    latency = found.latency.cache()
    tables = {name: _rows(frame) for name, frame in found._asdict().items() if name != "latency"}
    stepped = latency.withColumn("step", measure.hour("hour", _step(tables) // 1000))
    tables["by_step"] = _rows(measure.merged(stepped, "queue", "step"))
    tables["by_queue"] = _rows(measure.merged(latency, "queue"))
    latency.unpersist()
    return tables


def _rows(frame: DataFrame) -> list[Record]:
    """Without sketches, and with times in milliseconds."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = [(name, kind) for name, kind in frame.dtypes if kind != "binary"]
    columns = [F.unix_millis(F.col(name)).alias(name) if kind == "timestamp" else F.col(name) for name, kind in kept]
    return [row.asDict() for row in frame.select(*columns).collect()]


def _step(tables: Mapping[str, Table]) -> int:
    hours = [row["hour"] for row in tables["throughput"]]
    return _DAYS if hours and max(hours) - min(hours) > _LONG else _HOURS


def _throughput(rows: Table, step: int) -> Section:
    by_queue = _totals(rows, "queue", ("sent", "delivered", "acked", "dead"))
    series = _series(rows, step, lambda row: float(row["acked"]), sum)
    return _section(
        "Throughput",
        f"Messages acked {_each(step)}, by queue.",
        series,
        ("queue", "sent", "delivered", "acked", "dead"),
        [(name, *(f"{count:,}" for count in counts)) for name, counts in by_queue],
    )


def _depth(rows: Table, step: int) -> Section:
    series = _series(sorted(rows, key=lambda row: row["hour"]), step, lambda row: float(row["depth"]), lambda values: values[-1])
    latest = {row["queue"]: row["depth"] for row in sorted(rows, key=lambda row: row["hour"])}
    deepest: dict[str, int] = {}
    for row in rows:
        deepest[row["queue"]] = max(deepest.get(row["queue"], 0), row["depth"])
    cells = [(name, f"{depth:,}", f"{deepest[name]:,}") for name, depth in sorted(latest.items(), key=lambda pair: -pair[1])]
    return _section("Depth", "Messages that were still to be done, by queue.", series, ("queue", "in the end", "at most"), cells)


def _latency(rows: Table, by_queue: Table, name: str, title: str, sentence: str) -> Section:
    series = _series([row | {"hour": row["step"]} for row in rows], 1, lambda row: float(row[f"{name}_p99"]), max)
    columns = ("p50", "p90", "p99", "max")
    cells = [
        (row["queue"], f"{row['messages']:,}", *(chart.amount(row[f"{name}_{column}"], "ms") for column in columns))
        for row in sorted(by_queue, key=lambda row: -row[f"{name}_p99"])
    ]
    return _section(title, f"{sentence}: the 99th percentile, by queue.", series, ("queue", "messages", *columns), cells, unit="ms")


def _retries(rows: Table, step: int) -> Section:
    names = ("deliveries", "retries", "nacked", "lease_expired")
    series = _series(rows, step, lambda row: float(row["retries"]), sum)
    cells = [(name, *(f"{count:,}" for count in counts)) for name, counts in _totals(rows, "queue", names)]
    return _section(
        "Retries",
        f"Deliveries {_each(step)} that were not the first of their message, by queue.",
        series,
        ("queue", "deliveries", "retries", "nacked", "leases expired"),
        cells,
    )


def _dead(rows: Table) -> Section:
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    ended: dict[tuple[str, int], int] = {}
    for row in rows:
        counts[row["queue"], row["reason"]] += row["died"]
        ended[row["queue"], row["hour"]] = row["ended"]
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    of_queue: defaultdict[str, int] = defaultdict(int)
    for (queue, _), count in ended.items():
        of_queue[queue] += count
    cells = [(queue, reason, f"{count:,}", chart.amount(100 * count / of_queue[queue], "%")) for (queue, reason), count in ordered]
    bars = {f"{queue}: {reason}": float(count) for (queue, reason), count in ordered[:12]}
    plot = chart.bars(bars, "Dead letters by queue and reason")
    columns = ("queue", "reason", "died", "share in those hours")
    return Section(
        title="Dead letters", sentence="Messages that died, by queue and reason.", plot=plot, columns=columns, rows=cells[:_MOST_ROWS]
    )


def _failures(rows: Table) -> Section:
    ordered = sorted(rows, key=lambda row: -row["failures"])
    cells = [
        (row["fingerprint"], row["queue"], f"{row['failures']:,}", f"{row['messages']:,}", chart.moment(row["last_at"]), row["example"])
        for row in ordered
    ]
    plot = chart.bars(
        {f"{row['queue']}: {row['fingerprint']}": float(row["failures"]) for row in ordered[:12]}, "Failures by kind of error"
    )
    return Section(
        title="Failures",
        sentence="Errors that mean the same, without what differs: numbers, ids, paths.",
        plot=plot,
        columns=("error", "queue", "failures", "messages", "last", "for example"),
        rows=[[_cut(cell) for cell in row] for row in cells[:_MOST_ROWS]],
        left_out=max(0, len(cells) - _MOST_ROWS),
    )


def _consumers(rows: Table) -> Section:
    names = ("delivered", "acked", "nacked", "rejected", "lease_expired")
    ordered = sorted(rows, key=lambda row: -row["acked"])
    cells = [
        (
            *(row["consumer"] or "unnamed", row["queue"], *(f"{row[name]:,}" for name in names)),
            *("" if row[f"processing_{rank}"] is None else chart.amount(row[f"processing_{rank}"], "ms") for rank in ("p50", "p99")),
        )
        for row in ordered
    ]
    plot = chart.bars({f"{row['consumer'] or 'unnamed'}, {row['queue']}": float(row["acked"]) for row in ordered[:12]}, "Acks by consumer")
    return Section(
        title="Consumers",
        sentence="What each of them did, and how long a message takes it.",
        plot=plot,
        columns=("consumer", "queue", "delivered", "acked", "nacked", "rejected", "leases expired", "p50", "p99"),
        rows=cells[:_MOST_ROWS],
        left_out=max(0, len(cells) - _MOST_ROWS),
    )


def _section(
    title: str, sentence: str, series: dict[str, chart.Points], columns: Sequence[str], cells: Sequence[Sequence[str]], *, unit: str = ""
) -> Section:
    return Section(
        title=title,
        sentence=sentence,
        plot=chart.lines(series, f"{title}: {sentence}", unit=unit),
        names=list(series),
        columns=columns,
        rows=cells[:_MOST_ROWS],
        left_out=max(0, len(cells) - _MOST_ROWS),
    )


def _series(
    rows: Iterable[Record], step: int, value: Callable[[Record], float], merge: Callable[[list[float]], float]
) -> dict[str, chart.Points]:
    """By queue, those with the most; what has no colour left is not drawn. In the order of their names, so that a queue has the same
    colour in every plot."""
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["queue"]][row["hour"] // step * step].append(value(row))
    merged = {queue: sorted((at, merge(values)) for at, values in points.items()) for queue, points in found.items()}
    heaviest = sorted(merged, key=lambda queue: -sum(amount for _, amount in merged[queue]))[:_MOST_SERIES]
    return {queue: merged[queue] for queue in sorted(heaviest)}


def _totals(rows: Table, by: str, names: Sequence[str]) -> list[tuple[str, list[int]]]:
    totals: dict[str, list[int]] = {}
    for row in rows:
        sums = totals.setdefault(row[by], [0] * len(names))
        totals[row[by]] = [before + row[name] for before, name in zip(sums, names, strict=True)]
    return sorted(totals.items(), key=lambda pair: -pair[1][0])


def _each(step: int) -> str:
    return "a day" if step == _DAYS else "an hour"


def _cut(cell: str, most: int = 300) -> str:
    return cell if len(cell) <= most else cell[: most - 1] + "…"
