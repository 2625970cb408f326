"""Durations and moments in user input, checked and converted to milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from rowq.errors import InvalidArgument

Duration = int | float | timedelta
"""Seconds, or a timedelta."""

LONGEST_MS = 366 * 86_400_000
LAST_MS = 253_402_300_799_999
"""The end of the year 9999: the limit of a datetime."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_WRITTEN = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, None: 1}


def to_ms(value: object, what: str, *, least: int = 0, most: int = LONGEST_MS) -> int:
    """Seconds (int, float or timedelta) as milliseconds; `what` names the argument in the error. A positive duration below half a
    millisecond becomes one: 0 often means "no limit"."""
    if isinstance(value, timedelta):
        seconds: float = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise InvalidArgument(f"{what} must be seconds (a number or a timedelta), not {type(value).__name__}")
    if not least <= seconds * 1000 <= most:  # false for NaN
        raise InvalidArgument(f"{what} must be between {least / 1000:g} seconds and {_written(most)}, not {seconds!r}")
    return max(least, round(seconds * 1000), 1 if seconds > 0 else 0)


def _written(ms: int) -> str:
    days, rest = divmod(ms, 86_400_000)
    return f"{ms / 1000:g} seconds" if rest else f"{days} days"


def read_seconds(text: str) -> float | None:
    """From `30`, `1.5`, `500ms`, `10s`, `5m`, `2h` or `7d`; None from anything else."""
    match = _WRITTEN.fullmatch(text.strip())
    return None if match is None else round(float(match[1]) * _SECONDS[match[2]], 12)


def optional_ms(value: object, what: str, *, least: int = 0) -> int | None:
    return None if value is None else to_ms(value, what, least=least)


def moment_ms(value: object, what: str) -> int:
    """A moment as milliseconds since 1970, UTC, rounded up so that it is not early. Moments before 1970 are 0."""
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{what} must be a moment (a datetime with a timezone), not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidArgument(f"{what} needs a timezone: give datetime(…, tzinfo=UTC), or write it as 2026-12-24T18:00+01:00")
    return max(0, -((_1970 - value) // _MILLISECOND))


def to_moment(ms: int) -> datetime:
    return _1970 + ms * _MILLISECOND
