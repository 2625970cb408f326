"""Every option of `format("rowq")`: parsed once, at the edge, into checked values. A parser takes the text, and raises ValueError with what
is expected instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from rowq.errors import InvalidArgument
from rowq.model.duration import LONGEST_MS, read_seconds, to_ms
from rowq.spark.tables import KINDS

READ, LEASE, LOG, WRITE = "read", "lease", "log", "write"
READING, STREAMING, SOURCE = (READ, LOG), (LEASE, LOG), (READ, LEASE, LOG)
STATES = ("ready", "scheduled", "leased", "blocked", "dead", "finished")
EXACTLY_ONCE, DIRECT = "exactly_once", "direct"
BY_GROUP, BY_BATCH = "group", "batch"
EARLIEST, LATEST = "earliest", "latest"
_ROLES = ("payload", "format", "queue", "headers", "key", "group", "priority", "delay", "at", "ttl", "deadline", "maxAttempts", "id")
SINK_COLUMNS = dict(zip(_ROLES, _ROLES, strict=True)) | {"queue": "queue_column", "maxAttempts": "max_attempts"}
"""The names of columns in options, without their suffix `Column`, and in a mapping."""

_OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}
"""Options of Spark itself, which it passes on to the source."""
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


class Option(Struct, frozen=True):
    name: str
    parse: Callable[[str], Any]
    uses: tuple[str, ...] = SOURCE
    default: str | None = None
    """As a user would write it."""


OPTIONS = (
    Option("url", text, (*SOURCE, WRITE)),
    Option("credentialsEnv", label, (*SOURCE, WRITE)),
    Option("queue", label, (*SOURCE, WRITE)),
    Option("queues", names),
    Option("queuePattern", pattern),
    Option("createQueue", switch, STREAMING, "false"),
    Option("table", one_of(KINDS), READING),
    Option("columns", names),
    Option("includeHeaders", switch, SOURCE, "true"),
    Option("includeLease", switch, (LEASE,), "false"),
    Option("minPartitions", count),
    Option("maxRecordsPerPartition", count),
    Option("states", some_of(STATES), (READ,)),
    Option("where", pairs, (READ,)),
    Option("startingPosition", position, READING),
    Option("endingPosition", position, (READ,)),
    Option("startingTimestamp", moment, READING),
    Option("endingTimestamp", moment, (READ,)),
    Option("mode", one_of((LEASE, LOG)), STREAMING, LEASE),
    Option("streamId", label, (LEASE,)),
    Option("maxMessagesPerTrigger", count, STREAMING, "10000"),
    Option("maxBytesPerTrigger", size, (LEASE,)),
    Option("minMessagesPerTrigger", count, (LEASE,)),
    Option("maxTriggerDelay", duration, (LEASE,), "15m"),
    Option("pollInterval", period, STREAMING, "500ms"),
    Option("heartbeatInterval", period, (LEASE,), "10s"),
    Option("streamTimeout", limit, (LEASE,), "never"),
    Option("prefetchBatches", number, (LEASE,), "0"),
    Option("preserveOrder", one_of((BY_GROUP, BY_BATCH)), (LEASE,), BY_GROUP),
    Option("failOnDataLoss", switch, STREAMING, "true"),
    Option("deliveryMode", one_of((EXACTLY_ONCE, DIRECT)), (WRITE,), EXACTLY_ONCE),
    Option("sinkId", label, (WRITE,), "rowq"),
    Option("txnAppId", label, (WRITE,)),
    Option("txnVersion", number, (WRITE,)),
    Option("batchSize", count, (WRITE,), "10000"),
    Option("payloadColumn", text, (WRITE,), "payload"),
    Option("payloadAs", one_of(("auto", "json", "text", "bytes")), (WRITE,), "auto"),
    *(Option(f"{role}Column", text, (WRITE,)) for role in SINK_COLUMNS if role != "payload"),
)

OTHER_NAMES = {"dedupeKeyColumn": "keyColumn", "partitionBy": "preserveOrder"}
"""Names that other connectors use."""

_KNOWN = {option.name.lower(): option for option in OPTIONS}
_MEANT = {other.lower(): name.lower() for other, name in OTHER_NAMES.items()}
_PURPOSES = {READ: "a batch read", LEASE: "a stream with mode=lease", LOG: "a stream with mode=log", WRITE: "a write"}


class Given:
    """The user's options, each value checked by itself. Whether it suits the operation is known only later: see `use`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values: dict[str, Any] = {}
        for name, given in options.items():
            if name.lower() not in _OF_SPARK:
                option = _known(name)
                if option.name in self._values:
                    raise InvalidArgument(f"option {option.name} is given twice, under both of its names: give it once")
                self._values[option.name] = _parse(option, given)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        """The given value, else the default, else None."""
        if name in self._values:
            return self._values[name]
        option = _KNOWN[name.lower()]
        return None if option.default is None else option.parse(option.default)

    def use(self, purpose: str) -> None:
        """Refuses options that have no effect here, so that users do not rely on them."""
        for name in self._values:
            uses = _KNOWN[name.lower()].uses
            if purpose not in uses:
                fits = " and ".join(_PURPOSES[use] for use in uses)
                raise InvalidArgument(f"option {name} has no meaning for {_PURPOSES[purpose]}: it is for {fits}; leave it out")

    def need(self, name: str, why: str) -> Any:
        if name not in self._values:
            raise InvalidArgument(f"option {name} is missing: {why}")
        return self._values[name]

    def only_one(self, *names: str) -> None:
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise InvalidArgument(f"options {' and '.join(given)} contradict each other: give one of them")


def _known(name: str) -> Option:
    option = _KNOWN.get(_MEANT.get(name.lower(), name.lower()))
    if option is None:
        if name.lower() == "path":
            raise InvalidArgument("load() and save() take no path here: name the queue with option queue")
        near = difflib.get_close_matches(name.lower(), _KNOWN, n=1)
        hint = f"did you mean {_KNOWN[near[0]].name}?" if near else "docs/reference/spark.md lists all"
        raise InvalidArgument(f"unknown option {name}: {hint}")
    return option


def _parse(option: Option, given: str) -> Any:
    try:
        return option.parse(str(given))
    except ValueError as error:
        shown = "this" if option.name == "url" else repr(given)  # it may contain a password
        raise InvalidArgument(f"option {option.name}: {shown} is not valid; it takes {error}") from None
