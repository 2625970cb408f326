"""How values are shown on a page: times, ages, numbers, payloads; and its static files. Jinja escapes what comes from outside."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

import rowq
from rowq.server.http import asgi
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
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_STATIC = ("admin.css", "admin.js", "htmx.min.js", "rowq.svg")
_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


class Templates:
    def __init__(self, static: Static) -> None:
        self._environment = Environment(
            loader=PackageLoader("rowq.server.admin"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals |= {"static": static.url, "version": rowq.__version__}
        shown = (number, span, rate, share, moment, colour, pretty, line, brief, glimpse, visible)
        self._environment.filters |= {"bytes": size} | {each.__name__: each for each in shown}

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


class _File(NamedTuple):
    content: bytes
    kind: str
    version: str


class Static:
    """The static files, as an ASGI application that needs no login. Their URLs change with their content."""

    def __init__(self) -> None:
        folder = files("rowq.server.admin") / "static"
        self._files = {name: _read((folder / name).read_bytes(), name) for name in _STATIC}

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._files[name].version}"

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        file = self._files.get(scope["path_params"]["name"])
        if file is None or scope["method"] not in ("GET", "HEAD"):
            await Response(status_code=404, headers={"cache-control": "no-store"})(scope, receive, send)
            return
        await Response(file.content, media_type=file.kind, headers=_HEADERS)(scope, receive, send)


def _read(content: bytes, name: str) -> _File:
    return _File(content, _KINDS[name.rpartition(".")[2]], sha256(content).hexdigest()[:12])
