"""What is looked at over HTTP: messages, queues and their settings, events, undelivered keys. The other half of wire.py."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rowq.model.message import Event, KvEntry, Message, Stats
from rowq.model.queue import Bytes, DeliveryMode, Keep, OnExhausted, OnExpire, Origin, Policy, Settings, Whole
from rowq.model.retry import Millis, PositiveMillis
from rowq.model.value import KeyPart, StateName
from rowq.wire import BackoffMs, of_backoff, to_backoff


class MessageLook(Struct, omit_defaults=True):
    """A message looked at, not taken. What does not apply to its state is left out."""

    id: str
    queue: str
    state: StateName
    attempts: int
    sent_at: int
    priority: int
    headers: dict[str, str]
    cursor: str
    payload: Any = UNSET
    payload_base64: str | UnsetType = UNSET
    key: str | None = None
    group: str | None = None
    ttl_ms: int | None = None
    deadline: int | None = None
    max_attempts: int | None = None
    backoff_ms: BackoffMs | None = None
    keys_if_undelivered: list[list[KeyPart]] | None = None
    due_at: int | None = None
    expires_at: int | None = None
    lease_until: int | None = None
    leased_at: int | None = None
    consumer: str | None = None
    error: str | None = None
    reason: str | None = None
    died_at: int | None = None
    outcome: str | None = None
    finished_at: int | None = None


class Messages(Struct):
    """A page. `next` is the `after` of the page behind it; null at the end."""

    messages: list[MessageLook]
    next: str | None = None


class SettingsBody(Struct, forbid_unknown_fields=True):
    """The settings of a queue. In a PUT what is left out stays as it is, and null goes back to the default; 0 means no limit."""

    lease_ms: PositiveMillis | UnsetType | None = UNSET
    max_attempts: Whole | UnsetType | None = UNSET
    backoff_ms: BackoffMs | UnsetType | None = UNSET
    ttl_ms: Millis | UnsetType | None = UNSET
    ttl_from: Literal["available", "enqueue"] | UnsetType | None = UNSET
    refresh_ttl: bool | UnsetType | None = UNSET
    on_expire: OnExpire | UnsetType | None = UNSET
    on_exhausted: OnExhausted | UnsetType | None = UNSET
    delivery: DeliveryMode | UnsetType | None = UNSET
    order: Literal["sent", "ready"] | UnsetType | None = UNSET
    count_lease_expiry: bool | UnsetType | None = UNSET
    lease_expiry_backoff: Literal["none", "nack"] | UnsetType | None = UNSET
    require_receipt: bool | UnsetType | None = UNSET
    max_depth: Whole | UnsetType | None = UNSET
    throughput_limit: Whole | UnsetType | None = UNSET
    max_payload_bytes: Bytes | UnsetType | None = UNSET
    schema: dict[str, Any] | UnsetType | None = UNSET
    keep: Keep | UnsetType | None = UNSET
    retention_ms: Millis | UnsetType | None = UNSET
    audit: bool | UnsetType | None = UNSET
    audit_retention_ms: Millis | UnsetType | None = UNSET
    dlq_ttl_ms: Millis | UnsetType | None = UNSET
    dlq_exhausted: Literal["keep", "delete"] | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET


class Queues(Struct):
    queues: list[Stats]


class QueueLook(Struct):
    """Depth by state, what somebody set, what therefore holds, and where each value comes from."""

    stats: Stats
    settings: SettingsBody
    policy: SettingsBody
    origins: dict[str, Origin]


class Events(Struct):
    events: list[Event]


class EntryBody(Struct):
    """The payload of an undelivered message under one of its keys."""

    key: list[KeyPart]
    written_at: int
    id: str
    value: Any = UNSET
    value_base64: str | UnsetType = UNSET


class Entries(Struct):
    keys: list[EntryBody]


def to_settings(body: SettingsBody) -> dict[str, Any]:
    """The settings that were given, as `Settings` names them."""
    given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
    if "backoff_ms" in given:
        given["backoff"] = to_backoff(given.pop("backoff_ms"))
    return given


def of_settings(settings: Settings | Policy) -> SettingsBody:
    """What is set; what is not is left out."""
    given = {name: value for name in settings.__struct_fields__ if (value := getattr(settings, name)) is not None}
    if "backoff" in given:
        given["backoff_ms"] = of_backoff(given.pop("backoff"))
    return SettingsBody(**given)


def of_message(message: Message) -> MessageLook:
    fields = msgspec.structs.asdict(message)
    fields |= _spelled("payload", fields.pop("payload"))
    fields["backoff_ms"] = of_backoff(fields.pop("backoff"))
    return MessageLook(**fields)


def of_entry(entry: KvEntry) -> EntryBody:
    return EntryBody(entry.key, entry.written_at, entry.id, **_spelled("value", entry.value))


def _spelled(name: str, value: Any) -> dict[str, Any]:
    return {f"{name}_base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else {name: value}
