"""Answers: deliveries and results as JSON, straight from the rows of the store."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from rowq.ids import message_id
from rowq.model.message import Outcome
from rowq.server.http.asgi import Headers, Message, Send
from rowq.store.dialect import Row
from rowq.wire import Deliveries, DeliveryBody, Result, Results

encode = msgspec.json.Encoder().encode
NO_DELIVERIES = b'{"deliveries":[]}'
_NO_HEADERS: Any = Raw(b"{}")
_JSON = (b"content-type", b"application/json")
_NEVER_STORED = (b"cache-control", b"no-store")


class Watched:
    """ASGI's send, which records whether an answer has begun: after that, no other can be sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    @property
    def has_begun(self) -> bool:
        return self.status > 0

    async def __call__(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        await self._send(message)


async def answer(send: Send, status: int, body: bytes, headers: Headers | None = None) -> None:
    lines = [_JSON, (b"content-length", b"%d" % len(body)), _NEVER_STORED]
    await send({"type": "http.response.start", "status": status, "headers": lines + headers if headers else lines})
    await send({"type": "http.response.body", "body": body})


def deliveries(rows: Sequence[Row]) -> bytes:
    """Payloads and headers are sent as stored, without decoding."""
    return encode(Deliveries([delivery(row) for row in rows]))


def delivery(row: Row) -> DeliveryBody:
    seq, queue, attempt, token, until, format, payload, headers, sent_at, key, group, priority, own_id = row
    id = message_id(seq, sent_at)
    body = DeliveryBody(
        own_id or id,
        f"{id}.{token:016x}",
        queue,
        attempt,
        until,
        sent_at,
        _as_they_are(headers) if headers else _NO_HEADERS,
        priority,
        key,
        group,
    )
    if format:
        body.payload = Raw(payload)
    else:
        body.payload_base64 = base64.b64encode(payload).decode()
    return body


def _as_they_are(headers: bytes) -> Any:
    return Raw(headers)


def results(receipts: list[str], outcomes: Sequence[Outcome], until: Sequence[int | None]) -> bytes:
    if len(outcomes) == 1 and outcomes[0] is Outcome.DONE and until[0] is None:
        return b'{"results":[{"receipt":"%b","outcome":"done"}]}' % receipts[0].encode()  # it was a receipt: nothing in it needs an escape
    return encode(Results([Result(*result) for result in zip(receipts, outcomes, until, strict=True)]))
