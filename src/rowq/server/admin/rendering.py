"""How values are shown on a page: times, ages, numbers, payloads. Jinja escapes everything that comes from outside."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import rowq
from rowq.server.admin.files import Static
from rowq.wire import MessageLook

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_COLOURS = {
    "ready": "pending",
    "scheduled": "pending",
    "blocked": "pending",
    "leased": "processing",
    "dead": "failed",
    "failed": "failed",
    "expired": "expired",
    "finished": "done",
    "acked": "done",
}
"""The badge's class, by state or outcome. In the stylesheet pending is yellow, processing blue, failed red, expired orange."""
_MOST_SPACED = 2_000
"""Payloads up to this many bytes are written with spaces in a list: a page has many, and they may be large."""
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Templates:
    def __init__(self, static: Static) -> None:
        self._environment = Environment(
            loader=PackageLoader("rowq.server.admin"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals |= {"static": static.url, "version": rowq.__version__}
        self._environment.filters |= {
            "number": number,
            "span": span,
            "rate": rate,
            "share": share,
            "moment": moment,
            "colour": colour,
            "pretty": pretty,
            "bytes": size,
            "line": line,
            "brief": brief,
            "glimpse": glimpse,
            "visible": visible,
        }

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)


def number(value: float | None) -> str:
    """`12,345`; a fraction below ten with one decimal."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if value < 10 and value % 1 else f"{round(value):,}"


def count(value: int, noun: str) -> str:
    """`1 message`, `12,345 messages`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """`ready, leased and dead`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def rate(per_second: float | None) -> str:
    """`1,250/s`, `2.5/s`, `12/min`."""
    if per_second is None:
        return "–"
    if not per_second:
        return "0"
    return f"{number(per_second)}/s" if per_second >= 1 else f"{number(max(0.1, per_second * 60))}/min"


def share(part: float | None) -> str:
    """`3 %`, `<1 %`."""
    if part is None:
        return "–"
    return "<1 %" if 0 < part < 0.01 else f"{part * 100:.0f} %"


def span(ms: float | None) -> str:
    """The two largest units: `3 min 20 s`, `2 d 4 h`, `850 ms`."""
    if ms is None:
        return "–"
    left, words = max(0, round(ms)), []
    for unit, name in _UNITS:
        if left >= unit:
            words.append(f"{left // unit} {name}")
            left %= unit
        elif words:
            break
        if len(words) == 2:
            break
    return " ".join(words) or f"{left} ms"


def moment(ms: int | None) -> Markup:
    """A time in UTC, as a `<time>` element."""
    if ms is None:
        return Markup("–")
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return Markup("{}").format(ms)
    text = at.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}"
    return Markup('<time datetime="{}Z">{}</time>').format(text.replace(" ", "T"), text)


def colour(state: str, reason: str | None = None) -> str:
    return "expired" if reason == "message_expired" else _COLOURS.get(state, "quiet")


def pretty(value: Any) -> str:
    """Indented JSON, without escaping non-ASCII characters."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain)


def size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:,.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):,.1f} MiB"


def line(text: str, most: int = 160) -> str:
    """The first non-empty line; of a traceback, the last line."""
    if text.startswith("Traceback "):
        text = text.rstrip().rpartition("\n")[2]
    first = next((each for each in text[: 4 * most].splitlines() if each.strip()), "").strip()
    return visible(first if len(first) <= most else first[: most - 1] + "…")


def brief(text: str, most: int = 40) -> str:
    """A name, without its middle if it is long: related names begin alike and end differently."""
    half = most // 2
    return visible(text if len(text) <= most else f"{text[: half - 1]}…{text[-half:]}")


def glimpse(message: MessageLook) -> str:
    """The beginning of a payload, on one line."""
    if message.payload_base64 is not msgspec.UNSET:
        data = base64.b64decode(message.payload_base64)
        return f"{size(len(data))}: {data[:24].hex(' ')}{'…' if len(data) > 24 else ''}"
    if isinstance(message.payload, str):
        return line(message.payload)
    data = msgspec.json.encode(message.payload)
    if len(data) > _MOST_SPACED:
        return line(data[:_MOST_SPACED].decode(errors="ignore"))
    return line(json.dumps(message.payload, ensure_ascii=False, default=_plain))


def visible(text: str) -> str:
    """With an escape in place of each invisible character, and of each that changes text direction."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else msgspec.to_builtins(value)
