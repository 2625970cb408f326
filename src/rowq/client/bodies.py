"""Bodies of requests and responses: messages out, deliveries in. Payloads that were encoded by the checks are inserted as they are."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from rowq.client.exchange import understood
from rowq.client.http import Answer
from rowq.model.draft import Prepared
from rowq.model.message import Delivery, KvEntry, Message, Outcome, State
from rowq.model.payload import from_base64
from rowq.wire import EntryBody, MessageLook, to_backoff

_encode = msgspec.json.Encoder().encode


class _Outgoing(Struct, omit_defaults=True, gc=False):
    """A message as `wire.MessageBody` reads it; defaults are left out."""

    payload: Raw | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    headers: Raw | None = None
    key: str | None = None
    group: str | None = None
    priority: int = 0
    delay_ms: int = 0
    at_ms: int | None = None
    ttl_ms: int | None = None
    deadline_ms: int | None = None
    max_attempts: int | None = None
    backoff_ms: Raw | None = None
    keys_if_undelivered: Raw | None = None
    id: str | None = None


class _Deliveries(Struct):
    deliveries: list[Delivery]


class _Incoming(Struct):
    """A delivery whose payload may be bytes."""

    id: str
    queue: str
    headers: dict[str, str]
    attempt: int
    receipt: str
    lease_until: int
    sent_at: int
    key: str | None
    group: str | None
    priority: int
    payload: Any = None
    payload_base64: str | None = None


class _MixedDeliveries(Struct):
    deliveries: list[_Incoming]


class SettleResult(Struct, gc=False):
    outcome: Outcome
    lease_until: int | None = None


class _Results(Struct):
    results: list[SettleResult]


_plain = msgspec.json.Decoder(_Deliveries).decode
_mixed = msgspec.json.Decoder(_MixedDeliveries).decode
_results = msgspec.json.Decoder(_Results).decode


def one_body(message: Prepared) -> bytes:
    return b'{"payload":%s}' % message.payload if _is_plain(message) else _encode(_outgoing(message))


def many_body(messages: list[Prepared]) -> bytes:
    return b'{"messages":[%s]}' % b",".join([one_body(message) for message in messages])


def read_deliveries(answer: Answer) -> list[Delivery]:
    if b'"payload_base64"' not in answer.body:
        return understood(_plain, answer.body).deliveries
    return [
        Delivery(
            one.id,
            one.queue,
            one.payload if one.payload_base64 is None else from_base64(one.payload_base64),
            one.headers,
            one.attempt,
            one.receipt,
            one.lease_until,
            one.sent_at,
            one.key,
            one.group,
            one.priority,
        )
        for one in understood(_mixed, answer.body).deliveries
    ]


def read_results(answer: Answer) -> list[SettleResult]:
    return understood(_results, answer.body).results


def to_message(look: MessageLook) -> Message:
    fields = msgspec.structs.asdict(look)
    payload, encoded = fields.pop("payload"), fields.pop("payload_base64")
    fields["payload"] = _payload(payload, encoded)
    fields["backoff"] = to_backoff(fields.pop("backoff_ms"))
    fields["state"] = State(look.state)
    return Message(**fields)


def to_entry(body: EntryBody) -> KvEntry:
    return KvEntry(key=body.key, value=_payload(body.value, body.value_base64), written_at=body.written_at, id=body.id)


def _payload(value: Any, encoded: str | UnsetType) -> Any:
    if isinstance(encoded, str):
        return from_base64(encoded)
    return None if value is UNSET else value


def _is_plain(message: Prepared) -> bool:
    """A JSON payload without options. Marks stand for key, group, deadline, id and keys_if_undelivered."""
    return (
        message.format == 1
        and message.marks == 0
        and message.priority == 0
        and message.delay_ms == 0
        and message.headers is None
        and message.ttl_ms is None
        and message.max_attempts is None
        and message.backoff is None
    )


def _outgoing(message: Prepared) -> _Outgoing:
    body = _Outgoing(
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


def _raw(data: bytes | None) -> Raw | None:
    return None if data is None else Raw(data)
