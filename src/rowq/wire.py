"""What travels over HTTP: the bodies of requests and responses, as server and client both read and write them.

Durations are milliseconds and end in `_ms`; times are milliseconds since 1970, UTC. A payload is any JSON value in `payload`, or
bytes in `payload_base64`. OpenAPI is generated from these types.
"""

from __future__ import annotations

import base64
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from rowq.errors import InvalidArgument
from rowq.model.draft import MAX_RECEIVE, MAX_SEND, Prepared, prepare
from rowq.model.duration import to_moment
from rowq.model.lifecycle import NackLimit
from rowq.model.message import Draft, Event, KvEntry, Message, Outcome, Payload, Stats
from rowq.model.payload import check_encoded, from_base64
from rowq.model.queue import SETTINGS, DeliveryMode, Origin, Policy, Settings
from rowq.model.retry import MAX_DELAYS, Backoff, Delays, Exponential, Linear, Millis, PositiveMillis
from rowq.model.value import Base64, KeyPart, KvPath, Moment, Name, Note, OwnId, ShareBody, SomeText, StateName, Storable

MAX_POLL_MS = 60_000
MAX_RECEIPTS = 10_000

BackoffMs = Annotated[list[Millis], Meta(max_length=MAX_DELAYS)] | Delays | Linear | Exponential
"""Delays in milliseconds, or a policy: {"kind": "linear" | "exponential", …}."""

Receipts = Annotated[list[str], Meta(min_length=1, max_length=MAX_RECEIPTS)]


class MessageBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message to send."""

    payload: Raw | UnsetType = UNSET
    payload_base64: Base64 | UnsetType = UNSET
    headers: dict[Storable, Storable] | None = None
    key: Name | None = None
    group: Name | None = None
    priority: Annotated[int, Meta(gt=-(1 << 31), lt=1 << 31)] = 0
    delay_ms: Millis = 0
    at_ms: Moment | None = None
    ttl_ms: Millis | None = None
    deadline_ms: PositiveMillis | None = None
    max_attempts: Annotated[int, Meta(ge=0, le=1 << 31)] | None = None
    backoff_ms: BackoffMs | None = None
    keys_if_undelivered: Annotated[list[KvPath], Meta(max_length=1_000)] | None = None
    id: OwnId | None = None


class SendBody(MessageBody, forbid_unknown_fields=True, omit_defaults=True):
    """One message, or several in `messages`: all of them or none."""

    messages: Annotated[list[MessageBody], Meta(max_length=MAX_SEND)] | UnsetType = UNSET


_options = attrgetter(*[name for name in MessageBody.__struct_fields__ if name not in ("payload", "payload_base64", "priority")])
_NO_OPTIONS = _options(MessageBody())


class SentOne(Struct):
    id: str


class SentMany(Struct):
    ids: list[str]


class ReceiveBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How many messages to take at most, how long to wait for the first, and how long to hold them."""

    max: Annotated[int, Meta(ge=1, le=MAX_RECEIVE)] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_POLL_MS)] = 0
    lease_ms: PositiveMillis | None = None
    consumer: Note | None = None
    delivery: DeliveryMode | None = None
    share: ShareBody | None = None


class DeliveryBody(Struct):
    """A message leased to you until `lease_until`. It has exactly one of `payload` and `payload_base64`."""

    id: str
    receipt: str
    queue: str
    attempt: int
    lease_until: int
    sent_at: int
    headers: dict[str, str]
    priority: int
    key: str | None
    group: str | None
    payload: Raw | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET


class Deliveries(Struct):
    deliveries: list[DeliveryBody]


class AckBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    receipts: Receipts


class RejectBody(AckBody, forbid_unknown_fields=True, omit_defaults=True):
    reason: Note | None = None


class NackBody(RejectBody, forbid_unknown_fields=True, omit_defaults=True):
    """`counts: false` releases the message without counting an attempt."""

    delay_ms: Millis | None = None
    counts: bool = True
    limit: NackLimit = "attempts"


class RescheduleBody(Struct, forbid_unknown_fields=True, omit_defaults=True):
    receipts: Receipts
    delay_ms: Millis
    reason: Note | None = None


class ExtendBody(AckBody, forbid_unknown_fields=True, omit_defaults=True):
    lease_ms: PositiveMillis | None = None


class Result(Struct, omit_defaults=True):
    """`lease_until` is set after a successful extend."""

    receipt: str
    outcome: Outcome
    lease_until: int | None = None


class Results(Struct):
    results: list[Result]


class DeadFilter(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of `Where`."""

    reason: Storable | None = None
    error: SomeText | None = None
    fingerprint: Storable | None = None
    key: Storable | None = None
    group: Storable | None = None
    died_before: Annotated[int, Meta(ge=0, lt=1 << 62)] | None = None
    died_after: Annotated[int, Meta(ge=0, lt=1 << 62)] | None = None


class RedriveBody(DeadFilter, forbid_unknown_fields=True, omit_defaults=True):
    """Which dead letters: those named, those that match, those that do both, or all."""

    ids: Annotated[list[Storable], Meta(max_length=10_000)] | None = None
    limit: Annotated[int, Meta(ge=0, lt=1 << 62)] | None = None
    rate: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None


class Count(Struct):
    """How many messages were affected."""

    count: int


class Problem(Struct):
    """What went wrong: a stable code for programs, a sentence for people."""

    code: str
    error: str


def to_backoff(backoff: BackoffMs | None) -> Backoff | None:
    return Delays(tuple(backoff)) if isinstance(backoff, list) else backoff


def of_backoff(backoff: Backoff | None) -> BackoffMs | None:
    return list(backoff.delays_ms) if isinstance(backoff, Delays) else backoff


def to_messages(queue: str, body: SendBody) -> list[Prepared]:
    """The messages of a send, checked. An error among several names the first bad one as "position N"."""
    if body.messages is UNSET:
        return [to_prepared(queue, body)]
    if body.payload is not UNSET or body.payload_base64 is not UNSET:
        raise InvalidArgument("give one message, or several in `messages`, not both")
    if body.priority or _options(body) != _NO_OPTIONS:
        raise InvalidArgument("`messages` cannot be combined with other fields: give each message its own options")
    prepared: list[Prepared] = []
    for message in body.messages:
        try:
            prepared.append(to_prepared(queue, message))
        except InvalidArgument as error:
            raise type(error)(f"position {len(prepared)}: {error}") from None
    return prepared


def to_prepared(queue: str, body: MessageBody) -> Prepared:
    payload, encoded = body.payload, body.payload_base64
    if payload is not UNSET:
        if encoded is not UNSET:
            raise InvalidArgument("give payload or payload_base64, not both")
        format, data = 1, check_encoded(bytes(payload))
    elif encoded is not UNSET:
        format, data = 0, from_base64(encoded)
    else:
        raise InvalidArgument("the payload is missing: give `payload` (any JSON) or `payload_base64` (bytes)")
    if _options(body) == _NO_OPTIONS:
        return Prepared(queue, format, data, priority=body.priority)
    prepared = prepare(queue, to_draft(body))
    prepared.format, prepared.payload = format, data
    return prepared


def to_draft(body: MessageBody, payload: Payload = b"") -> Draft:
    return Draft(
        payload,
        key=body.key,
        group=body.group,
        priority=body.priority,
        delay=body.delay_ms / 1000,
        at=None if body.at_ms is None else to_moment(body.at_ms),
        ttl=_seconds(body.ttl_ms),
        deadline=_seconds(body.deadline_ms),
        max_attempts=body.max_attempts,
        backoff=to_backoff(body.backoff_ms),
        headers=body.headers,
        keys_if_undelivered=body.keys_if_undelivered,
        id=body.id,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def of_prepared(message: Prepared) -> MessageBody:
    """Only to be encoded: what the checks have encoded is inserted as it is."""
    body = MessageBody(
        headers=_raw(message.headers),
        key=message.message_key,
        group=message.group_key,
        priority=message.priority,
        delay_ms=max(0, message.delay_ms),
        at_ms=-message.delay_ms if message.delay_ms < 0 else None,
        ttl_ms=message.ttl_ms,
        deadline_ms=message.deadline_ms,
        max_attempts=message.max_attempts,
        backoff_ms=_raw(message.backoff),
        keys_if_undelivered=_raw(message.kv_keys),
        id=message.own_id,
    )
    if message.format:
        body.payload = Raw(message.payload)
    else:
        body.payload_base64 = base64.b64encode(message.payload).decode()
    return body


def _raw(data: bytes | None) -> Any:
    return None if data is None else Raw(data)


class MessageLook(Struct, omit_defaults=True):
    """A message as read, not leased. What does not apply to its state is left out."""

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
    """A page. `next` is the `after` of the following page; null at the end."""

    messages: list[MessageLook]
    next: str | None = None


_SETTINGS_DOC = "The settings of a queue. In a PUT, settings left out stay unchanged, and null restores the default; 0 means no limit."

if TYPE_CHECKING:

    class SettingsBody(Struct):
        def __init__(self, **settings: Any) -> None: ...

else:
    SettingsBody = msgspec.defstruct(
        "SettingsBody",
        [
            (setting.wire, (BackoffMs if setting.kind == "backoff" else setting.type) | UnsetType | None, UNSET)
            for setting in SETTINGS.values()
        ],
        namespace={"__doc__": _SETTINGS_DOC},
        module=__name__,
        forbid_unknown_fields=True,
    )


class Queues(Struct):
    queues: list[Stats]


class QueueLook(Struct):
    """Depth by state, the queue's own settings, the effective settings, and where each value comes from."""

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
    """What is set; unset ones are left out."""
    given = {name: value for name in settings.__struct_fields__ if (value := getattr(settings, name)) is not None}
    if "backoff" in given:
        given["backoff_ms"] = of_backoff(given.pop("backoff"))
    return SettingsBody(**given)


def of_message(message: Message) -> MessageLook:
    fields = msgspec.structs.asdict(message)
    fields |= _to_fields("payload", fields.pop("payload"))
    fields["backoff_ms"] = of_backoff(fields.pop("backoff"))
    return MessageLook(**fields)


def of_entry(entry: KvEntry) -> EntryBody:
    return EntryBody(entry.key, entry.written_at, entry.id, **_to_fields("value", entry.value))


def _to_fields(name: str, value: Any) -> dict[str, Any]:
    return {f"{name}_base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else {name: value}
