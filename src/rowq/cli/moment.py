"""A moment, as it is written on the command line: how long ago, a date with or without a time, or milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

import typer

import rowq
from rowq.cli import value
from rowq.model.duration import moment_ms

_MILLISECONDS = re.compile(r"[0-9]{13,19}")
"""No duration has as many digits, and no message was sent before 2001, when milliseconds got their thirteenth."""


def moment(text: str) -> int:
    """Milliseconds since 1970, from `2h` (so long ago), `2026-01-31`, `2026-01-31T09:30Z` or `1767225600000`. Without a zone it is UTC."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return max(0, rowq.SystemClock().now() - round(value.duration(text) * 1000))
    except typer.BadParameter:
        at = _written(text, "2h (ago), 2026-01-31, 2026-01-31T09:30Z or milliseconds since 1970")
        return moment_ms(at if at.tzinfo else at.replace(tzinfo=UTC), "this")


def coming(text: str) -> datetime:
    """A moment that lies ahead. Whether it has a timezone is left to the verb that takes it."""
    return _written(text.strip(), "2026-12-24T18:00+01:00 or 2026-12-24T17:00Z")


def _written(text: str, ways: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a moment: write {ways}") from None


Since = Annotated[
    int | None,
    typer.Option("--since", metavar="WHEN", parser=moment, help="Only messages sent since: 2h (ago), or a time such as 2026-01-31T09:30Z."),
]
Until = Annotated[int | None, typer.Option("--until", metavar="WHEN", parser=moment, help="Only messages sent before: as for --since.")]
At = Annotated[
    datetime | None, typer.Option("--at", metavar="WHEN", parser=coming, help="Not before this moment, such as 2026-12-24T18:00+01:00.")
]
