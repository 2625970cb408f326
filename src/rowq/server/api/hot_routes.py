"""The hot routes: send, receive and settle, at the speed of the server underneath.

Requests that arrive together share one transaction: each is a call that waits in the group commit (rowq/engine/group_commit.py).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from rowq.engine.arguments import note, to_receive, to_settle
from rowq.errors import InvalidArgument
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Settlement
from rowq.model.queue import check_own_name, split_name
from rowq.server.auth.authentication import Identity
from rowq.server.http import answers, asgi
from rowq.server.http.exchange import Exchange
from rowq.server.http.patience import ClientGone, is_gone
from rowq.server.http.reading import decode, read_body
from rowq.server.http.shortcut import Shortcut
from rowq.server.service import Service
from rowq.store.call import Send
from rowq.wire import AckBody, ExtendBody, NackBody, ReceiveBody, RejectBody, RescheduleBody, SendBody, to_messages

Answer = tuple[int, bytes]
Handler = Callable[[Any, Identity, "Request"], Coroutine[Any, Any, Answer]]
"""Takes the queue or the settlement that the path names, and returns a status and a body."""
_send_body = msgspec.json.Decoder(SendBody)
_receive_body = msgspec.json.Decoder(ReceiveBody)
_DEFAULT_RECEIVE = ReceiveBody()
MAX_REQUEST_KEY = 255
_own_name = lru_cache(check_own_name)
_split_name = lru_cache(split_name)


class AsgiRequest(NamedTuple):
    headers: asgi.Headers
    receive: asgi.Receive
    shortcut: Shortcut | None

    def take_body(self, limit: int) -> bytes | None:
        """The whole body, if it is there already."""
        return None if self.shortcut is None else self.shortcut.take_body(limit)

    @property
    def is_gone(self) -> bool:
        return is_gone(self.receive) if self.shortcut is None else self.shortcut.is_gone


Request = AsgiRequest | Exchange


class HotRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._perform = service.engine.driver.perform
        self._max_body_bytes = service.limits.max_body_bytes
        self._of_queue: dict[str, Handler] = {"messages": self.send, "deliveries": self.receive}

    def find(self, path: str) -> tuple[Handler, Any] | None:
        """The handler of a POST, and its queue or settlement; None if the route is not hot."""
        if path.startswith("/v1/queues/"):
            queue, _, verb = path[11:].partition("/")
            handler = self._of_queue.get(verb)
            return None if handler is None else (handler, queue)
        settling = SETTLES.get(path)
        return None if settling is None else (self.settle, settling)

    async def send(self, queue: str, identity: Identity, request: Request) -> Answer:
        identity.check("send", _own_name(queue))
        data = request.take_body(self._max_body_bytes)
        body = decode(await self._read(request.receive) if data is None else data, _send_body)
        messages, request_key = to_messages(queue, body), _request_key(request.headers)
        if self._service.tracing is None:
            ids = await self._perform(Send(queue, messages, request_key, identity.actor)) if messages else []
        else:
            with self._service.tracing.sending(request.headers, queue, messages):
                ids = await self._perform(Send(queue, messages, request_key, identity.actor)) if messages else []
        answer = b'{"id":"%s"}' % ids[0].encode() if body.messages is msgspec.UNSET else b'{"ids":%s}' % answers.encode(ids)
        return 201, answer

    async def receive(self, queue: str, identity: Identity, request: Request) -> Answer:
        service = self._service
        identity.check("receive", _split_name(queue)[0])
        data = request.take_body(self._max_body_bytes)
        if data is None:
            data = await self._read(request.receive)
        body = decode(data, _receive_body) if data else _DEFAULT_RECEIVE
        new_call = to_receive(
            queue,
            body.max,
            lease_ms=body.lease_ms,
            consumer=body.consumer,
            delivery=body.delivery,
            share=body.share,
            actor=identity.actor,
        )
        tracing = service.tracing
        if tracing is None:
            call = await service.take(new_call, body.wait_ms, request.receive, identity, request.shortcut)
        else:
            with tracing.receiving(request.headers, queue) as received:
                call = await service.take(new_call, body.wait_ms, request.receive, identity, request.shortcut)
                received.hand_out(call.result or ())
        if call.result and request.is_gone:
            service.engine.give_back(call)
            raise ClientGone
        return 200, answers.deliveries(call.result) if call.result else answers.NO_DELIVERIES

    async def settle(self, settling: SettleRoute, identity: Identity, request: Request) -> Answer:
        service = self._service
        identity.check("receive")
        data = request.take_body(self._max_body_bytes)
        body = decode(await self._read(request.receive) if data is None else data, settling.decoder)
        call = to_settle(body.receipts, settling.settlement(body), identity.actor)
        receipts = call.receipts
        call.reaches = None if identity.sees_all else identity.reaches
        if service.tracing is None:
            outcomes = await self._perform(call)
        else:
            with service.tracing.settling(request.headers, settling.verb, len(receipts)):
                outcomes = await self._perform(call)
        until = [call.until.get(seq) for seq, _ in receipts] if call.until else [None] * len(receipts)
        if service.event_streams:
            service.event_streams.learn(receipts, outcomes, call.until if isinstance(call.settlement, Extend) else None)
        return 200, answers.results(body.receipts, outcomes, until)

    async def _read(self, receive: asgi.Receive) -> bytes:
        return await read_body(receive, self._max_body_bytes, self._service.stopwatch)


class SettleRoute(NamedTuple):
    """One of the verbs that take receipts: the decoder of its body, and the settlement."""

    verb: str
    decoder: msgspec.json.Decoder[Any]
    settlement: Callable[[Any], Settlement | Extend]


def _reason(body: NackBody | RejectBody | RescheduleBody) -> str | None:
    return note(body.reason, "reason")


SETTLES: dict[str, SettleRoute] = {
    f"/v1/{verb}": SettleRoute(verb, msgspec.json.Decoder(kind), settlement)
    for verb, kind, settlement in (
        ("ack", AckBody, lambda body: Ack()),
        ("nack", NackBody, lambda body: Nack(_reason(body), body.delay_ms, body.counts, body.limit)),
        ("reject", RejectBody, lambda body: Reject(_reason(body))),
        ("reschedule", RescheduleBody, lambda body: Reschedule(body.delay_ms, _reason(body))),
        ("extend", ExtendBody, lambda body: Extend(body.lease_ms)),
    )
}


def _request_key(headers: asgi.Headers) -> str | None:
    for name, value in headers:
        if name == b"idempotency-key":
            if not 1 <= len(value) <= MAX_REQUEST_KEY or not value.isascii() or not value.decode().isprintable():
                raise InvalidArgument(f"Idempotency-Key takes 1 to {MAX_REQUEST_KEY} visible ASCII characters")
            return value.decode()
    return None
