"""A moment, as it is written on the command line: how long ago, a date, or milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

import rowq
from rowq.cli import value

_MILLISECONDS = re.compile(r"[0-9]{13,19}")
"""No duration has as many digits, and no message was sent before 2001, when milliseconds got their thirteenth."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def moment(text: str) -> int:
    """Milliseconds since 1970, from `2h` (so long ago), `2026-01-31`, `2026-01-31T09:30Z` or `1767225600000`. Without a zone it is UTC."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return max(0, rowq.SystemClock().now() - round(value.duration(text) * 1000))
    except typer.BadParameter:
        return max(0, _written(text))


def _written(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no moment: write 2h (ago), 2026-01-31, 2026-01-31T09:30Z or milliseconds since 1970"
        ) from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _1970) // timedelta(milliseconds=1)


Since = Annotated[
    int | None,
    typer.Option("--since", metavar="WHEN", parser=moment, help="Only messages sent since: 2h (ago), or a time such as 2026-01-31T09:30Z."),
]
Until = Annotated[int | None, typer.Option("--until", metavar="WHEN", parser=moment, help="Only messages sent before: as for --since.")]
