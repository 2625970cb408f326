"""Plots as SVG text: lines over time and bars. Colours are CSS classes, so that the page defines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 30
COLOURS = 8
"""How many colours the page has."""
_DAY = 86_400_000
_STEPS_MS = (60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000, *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 364)))
_FEW_MARKS, _MOST_MARKS = 40, 120

_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

Points = Sequence[tuple[int, float]]
Axis = Callable[[float], float]


def lines(series: Mapping[str, Points], label: str, *, unit: str = "") -> str:
    """One line per name, over time in milliseconds. `label` is the text for screen readers."""
    times = [at for points in series.values() for at, _ in points]
    if not times:
        return ""
    first, last = min(times), max(times)
    top, ticks = _scale(max(value for points in series.values() for _, value in points), unit)
    x, y = _axis(first, last, _LEFT, WIDTH - _RIGHT), _axis(0, top, HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(ticks, y, unit), _times(first, last, x)]
    for number, (name, points) in enumerate(series.items()):
        colour = f"c{number % COLOURS}"
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in sorted(points))
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        marked = points if len(points) <= _MOST_MARKS else []
        radius = 2.5 if len(points) <= _FEW_MARKS else 1.5
        parts += [_dot(x(at), y(value), radius, colour, f"{name}, {moment(at)}: {amount(value, unit)}") for at, value in marked]
    return _svg(parts, label)


def bars(values: Mapping[str, float], label: str, *, unit: str = "") -> str:
    """One bar per name, from top to bottom."""
    if not values:
        return ""
    row, left = 26, 230
    height = row * len(values) + 8
    most = max(values.values()) or 1
    parts = []
    for number, (name, value) in enumerate(values.items()):
        top = 4 + number * row
        length = max(1.0, (WIDTH - left - 90) * value / most)
        said = amount(value, unit)
        parts.append(
            f'<text class="name" x="{left - 8}" y="{top + 17}" text-anchor="end">{escape(_shortened(name))}</text>'
            f'<rect class="bar" x="{left}" y="{top + 3}" width="{length:.1f}" height="{row - 8}" rx="2">'
            f"<title>{escape(name)}: {said}</title></rect>"
            f'<text x="{left + length + 6:.1f}" y="{top + 17}">{said}</text>'
        )
    return _svg(parts, label, height)


def legend(names: Sequence[str]) -> str:
    items = (f'<li><span class="swatch c{number % COLOURS}"></span>{escape(name)}</li>' for number, name in enumerate(names))
    return f'<ul class="legend">{"".join(items)}</ul>' if len(names) > 1 else ""


def amount(value: float, unit: str = "") -> str:
    """A number for people; large amounts of milliseconds become seconds, minutes and hours."""
    if unit == "ms":
        return _span(value)
    if unit == "%":
        return f"{value:.1f} %"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _svg(parts: Sequence[str], label: str, height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _span(milliseconds: float) -> str:
    for size, unit in _SPANS:
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds:.0f} ms"


def _scale(most: float, unit: str = "") -> tuple[float, list[float]]:
    """Where the axis ends, and its ticks: four or five round numbers, in minutes if they are shown in minutes."""
    size = next((size for size, _ in _SPANS if most >= size), 1) if unit == "ms" else 1
    most = max(most / size, 1e-9)
    step = 10 ** math.floor(math.log10(most / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor * 5 >= most)
    count = math.ceil(most / step - 1e-9)
    return size * step * count, [size * step * number for number in range(count + 1)]


def _axis(first: float, last: float, start: float, end: float) -> Axis:
    """Maps a measured value to a position; a single value is drawn in the middle."""
    if last <= first:
        return lambda _: (start + end) / 2
    factor = (end - start) / (last - first)
    return lambda value: start + (value - first) * factor


def _grid(ticks: Sequence[float], y: Axis, unit: str) -> str:
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{amount(tick, unit)}</text>'
        for tick in ticks
    )


def _times(first: int, last: int, x: Axis) -> str:
    step = next((step for step in _STEPS_MS if (last - first) / step <= 7), _STEPS_MS[-1])
    form = "%H:%M" if step < _DAY and last - first <= _DAY else "%d %b %H:%M" if step < _DAY else "%d %b"
    ticks = range(-(-first // step) * step, last + 1, step) or [first]
    said = ((tick, datetime.fromtimestamp(tick / 1000, UTC).strftime(form)) for tick in ticks)
    return "".join(f'<text x="{x(tick):.1f}" y="{HEIGHT - 10}" text-anchor="middle">{text}</text>' for tick, text in said)


def _dot(x: float, y: float, radius: float, colour: str, title: str) -> str:
    return f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(title)}</title></circle>'


def _shortened(name: str, most: int = 34) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
