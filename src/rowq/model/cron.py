"""Cron schedules: minute, hour, day of the month, month, day of the week. All times are UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import msgspec

from rowq.errors import InvalidArgument

_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PIECE = re.compile(r"(?:[*?]|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
_LONGEST_GAP = 8 * 366 + 1
"""The most days between two 29 Februaries, where a century skips one."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    low: int
    high: int
    last: int
    """Where `*` ends: Sunday is 0, but may be written as 7."""
    words: dict[str, int] = {}


_FIELDS = (
    _Field("minute", 0, 59, 59),
    _Field("hour", 0, 23, 23),
    _Field("day of the month", 1, 31, 31),
    _Field("month", 1, 12, 12, {word: number for number, word in enumerate(_MONTHS, 1)}),
    _Field("day of the week", 0, 7, 6, {word: number for number, word in enumerate(_WEEKDAYS)}),
)


class Cron(msgspec.Struct, frozen=True):
    """When something is due. If both kinds of days are restricted, a day that matches either will do, as everywhere in cron."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """From 0, Sunday."""
    is_either: bool
    """Both kinds of days are restricted."""

    def next(self, after: int) -> int:
        """The first minute after a moment, both in milliseconds since 1970."""
        moment = datetime.fromtimestamp(after // 60_000 * 60, UTC) + timedelta(minutes=1)
        first = moment.date()
        if self._is_day(first):
            for hour in self.hours:
                for minute in self.minutes:
                    if (hour, minute) >= (moment.hour, moment.minute):
                        return _millis(first, hour, minute)
        for distance in range(1, _LONGEST_GAP + 1):
            day = first + timedelta(days=distance)
            if self._is_day(day):
                return _millis(day, self.hours[0], self.minutes[0])
        raise AssertionError("read_cron refuses schedules that never come")

    def _is_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return is_day or is_weekday if self.is_either else is_day and is_weekday


def read_cron(text: str) -> Cron:
    """Raises InvalidArgument with a sentence."""
    fields = _SHORTHANDS.get(text.strip().lower(), text).lower().split()
    if len(fields) != len(_FIELDS):
        raise InvalidArgument(
            f"a schedule has five fields (minute, hour, day of the month, month, day of the week) or is one of "
            f"{', '.join(_SHORTHANDS)}, not {text!r}"
        )
    minutes, hours, days, months, weekdays = (_read_field(field, each) for field, each in zip(fields, _FIELDS, strict=True))
    is_either = not (_is_any(fields[2]) or _is_any(fields[4]))
    if not is_either and _is_any(fields[4]) and not any(min(days) <= _longest(month) for month in months):
        raise InvalidArgument(f"the schedule {text!r} never comes: none of its months has such a day")
    return Cron(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(weekday % 7 for weekday in weekdays),
        is_either,
    )


def _read_field(text: str, field: _Field) -> set[int]:
    return {value for piece in text.split(",") for value in _read_piece(piece, field)}


def _read_piece(piece: str, field: _Field) -> range:
    match = _PIECE.fullmatch(piece)
    if match is None:
        raise InvalidArgument(f"{piece!r} is not valid as the {field.name} of a schedule: write *, 5, 1-5, */15 or several with commas")
    first, last, step = match.groups()
    low = field.low if first is None else _number(first, field)
    if last is not None:
        high = _number(last, field)
    elif first is None or step is not None:
        high = max(low, field.last)
    else:
        high = low
    if high < low or step in ("0", "00"):
        raise InvalidArgument(f"{piece!r} is not valid as the {field.name} of a schedule: it runs backwards, or its step is 0")
    return range(low, high + 1, int(step or 1))


def _number(text: str, field: _Field) -> int:
    value = int(text) if text.isdigit() else field.words.get(text)
    if value is None or not field.low <= value <= field.high:
        raise InvalidArgument(f"{text!r} is not valid as the {field.name} of a schedule: it goes from {field.low} to {field.high}")
    return value


def _is_any(field: str) -> bool:
    return field in ("*", "?", "*/1", "?/1")


def _longest(month: int) -> int:
    return 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def _millis(day: date, hour: int, minute: int) -> int:
    return int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp()) * 1000
