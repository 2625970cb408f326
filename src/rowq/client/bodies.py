"""Bodies of requests and responses: messages out, deliveries in. Payloads that were encoded by the checks are inserted as they are."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from rowq.client.exchange import understood
from rowq.client.http import Answer
from rowq.model.draft import Prepared, is_plain
from rowq.model.message import Delivery, KvEntry, Message, Outcome, State
from rowq.model.payload import from_base64
from rowq.wire import EntryBody, MessageLook, of_prepared, to_backoff

_encode = msgspec.json.Encoder().encode


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
    has_options = message.format != 1 or message.priority != 0 or not is_plain(message)
    return _encode(of_prepared(message)) if has_options else b'{"payload":%s}' % message.payload


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
