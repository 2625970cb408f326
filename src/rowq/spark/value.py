"""Parsers for the values of options. Each takes the text, and raises ValueError with what is expected instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from rowq.model.duration import LONGEST_MS, read_seconds, to_ms

EARLIEST, LATEST = "earliest", "latest"

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_MOST = (1 << 63) - 1


def text(given: str) -> str:
    if not given or "\0" in given:
        raise ValueError("text")
    return given


def label(given: str) -> str:
    """A name that is kept in the database."""
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,100}", given):
        raise ValueError("a name of up to 100 letters, digits and . _ : -")
    return given


def switch(given: str) -> bool:
    if given.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return given.lower() == "true"


def count(given: str) -> int:
    return _whole(given, 1, "a whole number, 1 or more")


def number(given: str) -> int:
    return _whole(given, 0, "a whole number, 0 or more")


def size(given: str) -> int:
    found = re.fullmatch(r"(\d{1,15}) ?([kmg]?b?)", given.strip().lower())
    if found is None or not int(found[1]):
        raise ValueError("bytes, such as 1048576, 64k, 10mb or 1g")
    return int(found[1]) * _BYTES[found[2]]


def duration(given: str) -> int:
    """Milliseconds. A bare number is seconds, as everywhere in rowq."""
    seconds = read_seconds(given.lower())
    if seconds is None or seconds * 1000 > LONGEST_MS:
        raise ValueError("a duration such as 500ms, 10s, 15m or 2h; at most 366d")
    return to_ms(seconds, "this")


def period(given: str) -> int:
    """The duration of something repeated."""
    ms = duration(given)
    if ms < 10:
        raise ValueError("a duration of at least 10ms")
    return ms


def limit(given: str) -> int | None:
    """A duration, or `never`."""
    return None if given.lower() == "never" else period(given)


def moment(given: str) -> int:
    """Milliseconds since 1970: as a number, or as ISO 8601, which is UTC if it has no timezone."""
    if re.fullmatch(r"\d{1,15}", given):
        return int(given)
    try:
        found = datetime.fromisoformat(given)
        return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError("a moment such as 2026-07-01T12:00:00Z, or milliseconds since 1970") from None


def position(given: str) -> int | str:
    if given.lower() in (EARLIEST, LATEST):
        return given.lower()
    return _whole(given, 0, "earliest, latest, or the number of a row")


def names(given: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in given.split(",")))
    if not all(found):
        raise ValueError("names separated by commas")
    return found


def pattern(given: str) -> str:
    try:
        re.compile(given)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"a regular expression ({error})") from None
    return given


def pairs(given: str) -> tuple[tuple[str, str], ...]:
    found = [tuple(part.strip() for part in pair.partition("=")[::2]) for pair in given.split(";") if pair.strip()]
    if not found or not all(name and value for name, value in found):
        raise ValueError("name=value, separated by ;")
    return tuple((name, value) for name, value in found)


def one_of(choices: Collection[str]) -> Callable[[str], str]:
    def choose(given: str) -> str:
        if given.lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return given.lower()

    return choose


def some_of(choices: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def choose(given: str) -> tuple[str, ...]:
        found = names(given.lower())
        if not set(found) <= set(choices):
            raise ValueError(f"some of {', '.join(choices)}, separated by commas")
        return found

    return choose


def _whole(given: str, least: int, what: str) -> int:
    found = int(given) if re.fullmatch(r"\d{1,19}", given.strip()) else -1
    if not least <= found <= _MOST:
        raise ValueError(what)
    return found
