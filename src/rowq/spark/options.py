"""Every option of `format("rowq")`: parsed once, at the edge, into checked values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from rowq.errors import InvalidArgument
from rowq.spark import value

READ, LEASE, LOG, WRITE = "read", "lease", "log", "write"
READING, STREAMING, SOURCE = (READ, LOG), (LEASE, LOG), (READ, LEASE, LOG)
TABLES = ("messages", "dead", "history", "audit")
STATES = ("ready", "scheduled", "leased", "blocked", "dead", "finished")
EXACTLY_ONCE, DIRECT = "exactly_once", "direct"
BY_GROUP, BY_BATCH = "group", "batch"

_OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}
"""Options of Spark itself, which it passes on to the source."""


class Option(Struct, frozen=True):
    name: str
    parse: Callable[[str], Any]
    uses: tuple[str, ...] = SOURCE
    default: str | None = None
    """As a user would write it."""


OPTIONS = (
    Option("url", value.text, (*SOURCE, WRITE)),
    Option("credentialsEnv", value.label, (*SOURCE, WRITE)),
    Option("queue", value.label, (*SOURCE, WRITE)),
    Option("queues", value.names),
    Option("queuePattern", value.pattern),
    Option("createQueue", value.switch, STREAMING, "false"),
    Option("table", value.one_of(TABLES), READING),
    Option("columns", value.names),
    Option("includeHeaders", value.switch, SOURCE, "true"),
    Option("includeLease", value.switch, (LEASE,), "false"),
    Option("minPartitions", value.count),
    Option("maxRecordsPerPartition", value.count),
    Option("states", value.some_of(STATES), (READ,)),
    Option("where", value.pairs, (READ,)),
    Option("startingPosition", value.position, READING),
    Option("endingPosition", value.position, (READ,)),
    Option("startingTimestamp", value.moment, READING),
    Option("endingTimestamp", value.moment, (READ,)),
    Option("mode", value.one_of((LEASE, LOG)), STREAMING, LEASE),
    Option("streamId", value.label, (LEASE,)),
    Option("maxMessagesPerTrigger", value.count, STREAMING, "10000"),
    Option("maxBytesPerTrigger", value.size, (LEASE,)),
    Option("minMessagesPerTrigger", value.count, (LEASE,)),
    Option("maxTriggerDelay", value.duration, (LEASE,), "15m"),
    Option("pollInterval", value.period, STREAMING, "500ms"),
    Option("heartbeatInterval", value.period, (LEASE,), "10s"),
    Option("streamTimeout", value.limit, (LEASE,), "never"),
    Option("prefetchBatches", value.number, (LEASE,), "0"),
    Option("preserveOrder", value.one_of((BY_GROUP, BY_BATCH)), (LEASE,), BY_GROUP),
    Option("failOnDataLoss", value.switch, STREAMING, "true"),
    Option("deliveryMode", value.one_of((EXACTLY_ONCE, DIRECT)), (WRITE,), EXACTLY_ONCE),
    Option("sinkId", value.label, (WRITE,), "rowq"),
    Option("txnAppId", value.label, (WRITE,)),
    Option("txnVersion", value.number, (WRITE,)),
    Option("batchSize", value.count, (WRITE,), "10000"),
    Option("payloadColumn", value.text, (WRITE,), "payload"),
    Option("payloadAs", value.one_of(("auto", "json", "text", "bytes")), (WRITE,), "auto"),
    Option("formatColumn", value.text, (WRITE,)),
    Option("queueColumn", value.text, (WRITE,)),
    Option("headersColumn", value.text, (WRITE,)),
    Option("keyColumn", value.text, (WRITE,)),
    Option("groupColumn", value.text, (WRITE,)),
    Option("priorityColumn", value.text, (WRITE,)),
    Option("delayColumn", value.text, (WRITE,)),
    Option("atColumn", value.text, (WRITE,)),
    Option("ttlColumn", value.text, (WRITE,)),
    Option("deadlineColumn", value.text, (WRITE,)),
    Option("maxAttemptsColumn", value.text, (WRITE,)),
    Option("idColumn", value.text, (WRITE,)),
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
        for name, text in options.items():
            if name.lower() not in _OF_SPARK:
                option = _known(name)
                if option.name in self._values:
                    raise InvalidArgument(f"option {option.name} is given twice, under both of its names: give it once")
                self._values[option.name] = _parse(option, text)

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


def _parse(option: Option, text: str) -> Any:
    try:
        return option.parse(str(text))
    except ValueError as error:
        shown = "this" if option.name == "url" else repr(text)  # it may contain a password
        raise InvalidArgument(f"option {option.name}: {shown} is not valid; it takes {error}") from None
