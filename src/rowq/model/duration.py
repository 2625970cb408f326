"""Durations as users give them, checked and turned into milliseconds."""

from __future__ import annotations

from datetime import timedelta

from rowq.errors import InvalidArgument

LONGEST_MS = 366 * 86_400_000


def to_ms(value: object, what: str, *, least: int = 0, most: int = LONGEST_MS) -> int:
    """Seconds (int, float or timedelta) as milliseconds; `what` names the argument in the error."""
    if isinstance(value, timedelta):
        seconds: float = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise InvalidArgument(f"{what} must be seconds (a number or a timedelta), not {type(value).__name__}")
    if not least <= seconds * 1000 <= most:  # not a number is between nothing
        raise InvalidArgument(f"{what} must be between {least / 1000:g} and {most / 1000:g} seconds, not {seconds!r}")
    return max(least, round(seconds * 1000))


def optional_ms(value: object, what: str, *, least: int = 0) -> int | None:
    return None if value is None else to_ms(value, what, least=least)
