"""The reading side of a remote broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Unpack
from urllib.parse import quote, urlencode

import msgspec

from rowq.client.bodies import to_entry, to_message
from rowq.client.exchange import Exchange, Kind, look, reader, understood
from rowq.client.http import Answer
from rowq.engine.maintenance import MaintenanceResult
from rowq.engine.operation import Operation
from rowq.model.access import ApiKey
from rowq.model.draft import to_kv_key
from rowq.model.failure import Failures
from rowq.model.message import BrowseOptions, Event, KvEntry, KvKey, Message, Stats
from rowq.model.page import Page, check_limit, to_page, to_state
from rowq.model.queue import Origin, Policy, Settings, check_name, split_name
from rowq.model.stream import Stream
from rowq.model.text import check_text
from rowq.store.dialect import Finding
from rowq.store.lookup import check_id, not_found
from rowq.wire import Count, Entries, Events, MessageLook, Messages, QueueLook, Queues, SettingsBody, to_settings

Lines = Callable[[Exchange[None]], Iterator[bytes]]

_POSSIBLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_message = reader(MessageLook)
_line = msgspec.json.Decoder(MessageLook).decode
_messages = reader(Messages)
_stats = reader(Stats)
_failures = reader(Failures)
_queues = reader(Queues)
_queue = reader(QueueLook)
_settings = reader(SettingsBody)
_events = reader(Events)
_entries = reader(Entries)
_maintained = reader(MaintenanceResult)
_counted = reader(Count)


class _Findings(msgspec.Struct):
    findings: list[Finding]


class _ApiKeys(msgspec.Struct):
    api_keys: list[ApiKey]


class _Streams(msgspec.Struct):
    streams: list[Stream]


_findings = reader(_Findings)
_streams = reader(_Streams)
_api_keys = reader(_ApiKeys)


class RemoteInsights:
    """Has the interface of `rowq.engine.insights.Insights`, but returns requests; only `walk` sends its own, line by line."""

    def __init__(self, stream: Lines) -> None:
        self._stream = stream

    def get(self, id: str, queue: str | None = None) -> Exchange[Message]:
        return look(message_target(id, queue=queue), lambda answer: to_message(_message(answer)))

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> Operation[list[Message]]:
        return _fill(queue, to_page(queue, **options))

    def failures(self, queue: str, *, limit: int = 100) -> Exchange[Failures]:
        split_name(queue)
        return look(f"/v1/queues/{queue}/dead/failures?limit={check_limit(limit)}", _failures)

    def walk(self, queue: str | None, states: Sequence[str] | None) -> Iterator[Message]:
        query = [] if queue is None else [("queue", check_name(queue))]
        if states is not None:
            places = [to_state(state).value for state in states]
            if not places:
                return
            query += [("state", place) for place in places]
        for line in _lines(self._stream(Exchange(b"GET", f"/v1/messages?{urlencode(query)}", None, _unread, Kind.LOOK))):
            yield to_message(understood(_line, line))

    def stats(self, queue: str) -> Exchange[Stats]:
        split_name(queue)
        return look(f"/v1/queues/{queue}/stats", _stats)

    def queues(self) -> Exchange[list[Stats]]:
        return look("/v1/queues", lambda answer: _queues(answer).queues)

    def settings(self, queue: str) -> Exchange[Settings]:
        return look(f"/v1/queues/{check_name(queue)}", lambda answer: Settings(**to_settings(_queue(answer).settings)))

    def policy(self, queue: str) -> Exchange[Policy]:
        return look(f"/v1/queues/{check_name(queue)}/policy", lambda answer: Policy(**to_settings(_settings(answer))))

    def origins(self, queue: str) -> Exchange[dict[str, Origin]]:
        return look(f"/v1/queues/{check_name(queue)}", _read_origins)

    def actions(self, queue: str | None, limit: int) -> Exchange[list[Event]]:
        query: dict[str, Any] = {"limit": check_limit(limit)}
        if queue is not None:
            query["queue"] = check_name(queue)
        return look(f"/v1/actions?{urlencode(query)}", lambda answer: _events(answer).events)

    def audit(self, id: str, queue: str | None = None) -> Exchange[list[Event]]:
        return look(message_target(id, "/audit", queue=queue), lambda answer: _events(answer).events)

    def keys(self, prefix: KvKey) -> Exchange[list[KvEntry]]:
        parts = to_kv_key(prefix) if prefix else []
        target = f"/v1/keys?prefix={quote(msgspec.json.encode(parts), safe='')}" if parts else "/v1/keys"
        return look(target, lambda answer: [to_entry(entry) for entry in _entries(answer).keys])

    def api_keys(self) -> Exchange[list[ApiKey]]:
        return look("/v1/api-keys", lambda answer: _api_keys(answer).api_keys)

    def streams(self) -> Exchange[list[Stream]]:
        return look("/v1/streams", lambda answer: _streams(answer).streams)


class RemoteMaintenance:
    def run_all(self) -> Exchange[MaintenanceResult]:
        return Exchange(b"POST", "/v1/sweep", b"", _maintained, is_slow=True)


class RemoteMaintenanceTasks:
    def run(self, name: str) -> Exchange[int]:
        target = f"/v1/sweeps/{quote(check_text(name, 'the name of a maintenance task'), safe='')}"
        return Exchange(b"POST", target, b"", lambda answer: _counted(answer).count, is_slow=True)


def examine() -> Exchange[list[Finding]]:
    return Exchange(b"GET", "/v1/doctor", None, lambda answer: _findings(answer).findings, Kind.LOOK, is_slow=True)


def message_target(id: object, part: str = "", *, queue: str | None = None) -> str:
    """Refuses text that cannot be the id of a message: in a path it could mean something else."""
    name = None if queue is None else split_name(queue)[0]
    if not _POSSIBLE_ID.fullmatch(check_id(id)):
        raise not_found(id)
    return f"/v1/messages/{id}{part}" + ("" if name is None else f"?queue={name}")


def look_page(queue: str, page: Page) -> Exchange[Messages]:
    asked = msgspec.structs.asdict(page) | {"queue": None, "newest": "true" if page.newest else None}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return look(f"/v1/queues/{queue}/messages?{query}", _messages)


def _fill(queue: str, page: Page) -> Operation[list[Message]]:
    """A page in full: with a fingerprint the server may answer with a part of it."""
    part: Messages = yield look_page(queue, page)
    found = part.messages
    while part.next is not None and (missing := page.limit - len(found)):
        part = yield look_page(queue, msgspec.structs.replace(page, after=part.next, limit=missing))
        found += part.messages
    return [to_message(each) for each in found]


def _read_origins(answer: Answer) -> dict[str, Origin]:
    return {"backoff" if name == "backoff_ms" else name: origin for name, origin in _queue(answer).origins.items()}


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _unread(answer: Answer) -> None:
    """For a response whose body is a stream."""
