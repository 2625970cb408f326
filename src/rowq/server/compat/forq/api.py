"""The API of Forq: text messages, queues created on first use, one message per long poll, dead letters under `<queue>-dlq`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Raw, Struct

from rowq.errors import InvalidArgument, PayloadTooLarge
from rowq.model.duration import LONGEST_MS
from rowq.model.lifecycle import Ack, Nack, Settlement
from rowq.model.message import Draft, Outcome
from rowq.model.payload import Format
from rowq.model.queue import check_name
from rowq.model.retry import Delays
from rowq.model.text import is_text
from rowq.server.compat.api import Answer, CompatRoute
from rowq.server.compat.request import Adopted, CompatRequest, Settings
from rowq.server.http import answers
from rowq.server.http.errors import HttpError, to_answer
from rowq.server.http.reading import decode
from rowq.server.service import Service
from rowq.store.dialect import Row
from rowq.store.row import DeliveryRow
from rowq.wire import Problem

MAX_CONTENT_BYTES = 256 * 1024
LARGEST_AS_JSON = 6 * MAX_CONTENT_BYTES + 2
"""The largest content as JSON: control characters take six bytes each (\\u0000), plus the quotes."""
MAX_BODY_BYTES = 2 << 20
PROCESSING_MS = 300_000
SKEW_MS = 10_000
"""How far a client's clock may lag before its `processAfter` counts as past."""

_QUEUE = "/api/v1/queues/{queue}/messages"
_RECEIPT = b"x-forq-receipt"
_HOUR_MS = 3_600_000
_EXCEEDS = "bad_request.body.content.exceeds_limit"
_INVALID = "bad_request.body.invalid"
_TOO_MANY = "too_many_requests"
_WORDS: dict[str, tuple[HTTPStatus, str]] = {
    "name_reserved": (HTTPStatus.BAD_REQUEST, "bad_request.queue.produce_to_dlq"),
    "receipt_required": (HTTPStatus.BAD_REQUEST, "bad_request.receipt.missing"),
    "payload_too_large": (HTTPStatus.BAD_REQUEST, _EXCEEDS),
    "payload_rejected": (HTTPStatus.BAD_REQUEST, _INVALID),
    "invalid_argument": (HTTPStatus.BAD_REQUEST, _INVALID),
    "body_too_large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _EXCEEDS),
    "queue_full": (HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY),
    "too_many_failures": (HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY),
    "outcome_unknown": (HTTPStatus.INTERNAL_SERVER_ERROR, "internal"),
}
"""rowq's error codes as Forq's; codes missing here are the same in both."""

Hours = Annotated[int, Meta(ge=1, le=366 * 24)]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `[compat.forq]`; FORQ_… variables set them too."""

    queue_ttl_hours: Hours = 24
    dlq_ttl_hours: Hours = 168
    poll: Annotated[float, Meta(ge=0, le=30)] = 30.0
    """Seconds that a consume request waits for a message."""


class _NewMessage(Struct):
    content: str
    processAfter: int | None = None  # noqa: N815  # as it is on the wire


class _Message(Struct):
    id: str
    content: Raw | str
    receipt: str


_new_message = msgspec.json.Decoder(_NewMessage)


class CompatApi:
    name: ClassVar[str] = "forq"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._adopted = Adopted()
        self._settings: Settings = {
            "lease_ms": PROCESSING_MS,
            "max_attempts": 5,
            "backoff": Delays((1_000, 5_000, 15_000, 30_000, 60_000)),
            "ttl_ms": options.queue_ttl_hours * _HOUR_MS,
            "dlq_ttl_ms": options.dlq_ttl_hours * _HOUR_MS,
            "dlq_exhausted": "delete",
            "max_payload_bytes": LARGEST_AS_JSON,
        }

    def ways(self) -> Sequence[CompatRoute]:
        return (
            CompatRoute("POST", _QUEUE, "send", self._produce, MAX_BODY_BYTES),
            CompatRoute("GET", _QUEUE, "receive", self._consume),
            CompatRoute("POST", f"{_QUEUE}/{{id}}/ack", "receive", self._ack),
            CompatRoute("POST", f"{_QUEUE}/{{id}}/nack", "receive", self._nack),
        )

    def refuse(self, error: Exception) -> Answer:
        status, body, headers = to_answer(error)
        problem = msgspec.json.decode(body, type=Problem)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            problem.code = "forq.unhealthy"
        status, problem.code = _WORDS.get(problem.code, (status, problem.code))
        return Answer(status, answers.encode(problem), headers)

    async def live(self, service: Service) -> None:
        """Nothing: maintenance does every second what Forq's jobs do every few minutes."""

    async def _produce(self, request: CompatRequest) -> Answer:
        queue, message = _queue(request), decode(request.body, _new_message)
        size = len(message.content.encode())
        if size > MAX_CONTENT_BYTES:
            raise _bad_request("body.content.exceeds_limit", f"the content takes {size} bytes of UTF-8, the limit is {MAX_CONTENT_BYTES}")
        delay = _delay(message.processAfter, request.service.engine.clock.now())
        try:
            id = await self._send(request, queue, message.content, delay)
        except PayloadTooLarge:  # an existing queue may have a lower limit, which only the JSON quotes exceed
            id = await self._send(request, queue, message.content.encode(), delay)
        return Answer(HTTPStatus.NO_CONTENT, headers=[(b"x-forq-message-id", id.encode())])

    async def _send(self, request: CompatRequest, queue: str, payload: str | bytes, delay: float) -> str:
        draft = Draft(payload, delay=delay, ttl=self._options.queue_ttl_hours * 3600)
        return await request.send_one(queue, draft, adopted=self._adopted, settings=self._settings)

    async def _consume(self, request: CompatRequest) -> Answer:
        rows = await request.take(_queue(request), lease_ms=PROCESSING_MS, wait_ms=round(self._options.poll * 1000))
        if not rows:
            return Answer(HTTPStatus.NO_CONTENT)
        message = _message(rows[0])
        return Answer(HTTPStatus.OK, answers.encode(message), [(_RECEIPT, message.receipt.encode())])

    async def _ack(self, request: CompatRequest) -> Answer:
        """The same answer whether or not there was anything to ack, so that a client may retry."""
        await _settle(request, Ack())
        return Answer(HTTPStatus.NO_CONTENT)

    async def _nack(self, request: CompatRequest) -> Answer:
        if await _settle(request, Nack()) is not Outcome.DONE:
            raise HttpError(
                HTTPStatus.NOT_FOUND, "not_found.message", "this message is not being processed: it was settled, or returned to the queue"
            )
        return Answer(HTTPStatus.NO_CONTENT)


async def _settle(request: CompatRequest, settlement: Settlement) -> Outcome:
    queue, id = _queue(request), request.path["id"]
    return await request.settle(queue, id, settlement, request.header(_RECEIPT)) if is_text(id) else Outcome.NOT_FOUND


def _queue(request: CompatRequest) -> str:
    try:
        return check_name(request.path["queue"])
    except InvalidArgument as error:
        raise _bad_request("queue.invalid_name", str(error)) from None


def _delay(process_after: int | None, now: int) -> float:
    """In seconds. Clients omit `processAfter`, or send null or 0, for no delay."""
    if not process_after:
        return 0
    if process_after < now - SKEW_MS:
        raise _bad_request(
            "body.processAfter.in_past", f"processAfter {process_after} is in the past: the server has {now}, in milliseconds since 1970"
        )
    if process_after > now + LONGEST_MS:
        raise _bad_request("body.processAfter.too_far", f"processAfter {process_after} is more than 366 days away: the server has {now}")
    return max(0, process_after - now) / 1000


def _message(row: Row) -> _Message:
    found, format, payload = answers.delivery(row), row[DeliveryRow.FORMAT], bytes(row[DeliveryRow.PAYLOAD])
    is_text_already = format == Format.JSON and payload.startswith(b'"')
    return _Message(found.id, Raw(payload) if is_text_already else _text(payload), found.receipt)


def _text(payload: bytes) -> str:
    """For messages from other APIs: JSON as written, bytes as UTF-8 if valid, else as base64."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode()


def _bad_request(code: str, sentence: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, f"bad_request.{code}", sentence)
