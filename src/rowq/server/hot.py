"""The hot routes: send, receive and settle as plain ASGI, at the speed of the server underneath.

Requests that arrive together become one transaction: each is a call that waits in the fusion (rowq/fusion.py) with the others.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from rowq.arguments import note, to_receipt_or_none
from rowq.errors import InvalidArgument
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Verdict
from rowq.model.queue import check_own_name, split_name
from rowq.server import answering
from rowq.server.gate import Identity
from rowq.server.patience import ClientGone, first_of, is_gone
from rowq.server.patience import Receive as AsgiReceive
from rowq.server.reading import check_size, decode, read_body, to_messages
from rowq.server.service import Service
from rowq.server.shortcut import Shortcut, shortcut_of
from rowq.store.calls import Receive, Send, Settle
from rowq.wire import AckBody, ExtendBody, NackBody, ReceiveBody, RejectBody, RescheduleBody, SendBody

B = TypeVar("B")
Headers = list[tuple[bytes, bytes]]
Handler = Callable[..., Any]
Scope = MutableMapping[str, Any]

_send_body = msgspec.json.Decoder(SendBody)
_receive_body = msgspec.json.Decoder(ReceiveBody)
_DEFAULT_RECEIVE = ReceiveBody()
MAX_REQUEST_KEY = 255


class Hot:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._perform = service.engine.driver.perform
        self._settles: dict[str, Handler] = {
            "/v1/ack": self._settling("ack", AckBody, lambda body: Ack()),
            "/v1/nack": self._settling("nack", NackBody, lambda body: Nack(_reason(body), body.delay_ms, body.counts)),
            "/v1/reject": self._settling("reject", RejectBody, lambda body: Reject(_reason(body))),
            "/v1/reschedule": self._settling("reschedule", RescheduleBody, lambda body: Reschedule(body.delay_ms, _reason(body))),
            "/v1/extend": self._settling("extend", ExtendBody, lambda body: Extend(body.lease_ms)),
        }
        self._of_queue: dict[str, Handler] = {"messages": self.send, "deliveries": self.receive}

    def find(self, path: str) -> Handler | None:
        """The handler of a POST; None when it is not one of the hot ones."""
        if path.startswith("/v1/queues/"):
            queue, _, verb = path[11:].partition("/")
            handler = self._of_queue.get(verb)
            return None if handler is None else partial(handler, queue)
        return self._settles.get(path)

    async def send(self, queue: str, identity: Identity, scope: Scope, receive: AsgiReceive, send: answering.Send) -> None:
        shortcut = shortcut_of(scope)
        identity.check("send", check_own_name(queue))
        body = decode(await self._body(shortcut, receive), _send_body)
        call = Send(queue, to_messages(queue, body), _request_key(scope["headers"]))
        call.actor = identity.actor
        ids = await self._write(call, scope) if call.messages else []
        if body.messages is msgspec.UNSET:
            await answering.answer_at_once(shortcut, send, 201, b'{"id":"%s"}' % ids[0].encode())
        else:
            await answering.answer_at_once(shortcut, send, 201, b'{"ids":%s}' % answering.encode(ids))

    async def receive(self, queue: str, identity: Identity, scope: Scope, receive: AsgiReceive, send: answering.Send) -> None:
        service, shortcut = self._service, shortcut_of(scope)
        name, from_dead = split_name(queue)
        identity.check("receive", name)
        data = await self._body(shortcut, receive)
        body = decode(data, _receive_body) if data else _DEFAULT_RECEIVE
        consumer = note(body.consumer, "consumer")

        def new_call() -> Receive:
            call = Receive(name, body.max, body.lease_ms, consumer, from_dead=from_dead, delivery=body.delivery)
            call.actor = identity.actor
            return call

        tracing = service.tracing
        if tracing is None:
            call = await self._take(new_call, body.wait_ms, receive)
        else:
            with tracing.receiving(scope["headers"], queue) as received:
                call = await self._take(new_call, body.wait_ms, receive)
                received.hand_out(call.result or ())
        if not call.result:
            await answering.answer_at_once(shortcut, send, 200, answering.NO_DELIVERIES)
            return
        if is_gone(receive) if shortcut is None else shortcut.is_gone:
            service.engine.give_back(call)
            raise ClientGone
        await answering.answer_at_once(shortcut, send, 200, answering.deliveries(call.result))

    async def _body(self, shortcut: Shortcut | None, receive: AsgiReceive) -> bytes:
        body = None if shortcut is None else shortcut.body()
        limit = self._service.limits.max_body_bytes
        if body is None:
            return await read_body(receive, limit, self._service.stopwatch)
        check_size(body, limit)
        return body

    async def _write(self, call: Send, scope: Scope) -> list[str]:
        tracing = self._service.tracing
        if tracing is None:
            return await self._perform(call)
        with tracing.sending(scope["headers"], call.queue, call.messages):
            return await self._perform(call)

    async def _take(self, new_call: Callable[[], Receive], wait_ms: int, receive: AsgiReceive) -> Receive:
        """Once at once; and then, if there was nothing, for as long as the client waits."""
        service, call = self._service, new_call()
        await self._perform(call)
        if call.result or not wait_ms:
            return call
        with service.patience() as stop:
            wait = service.ask(service.engine.verbs.wait_for(new_call, wait_ms / 1000), call.actor)
            return await first_of(wait, receive, stop) or call

    def _settling(self, verb: str, kind: type[B], verdict: Callable[[B], Verdict | Extend]) -> Handler:
        return partial(self._settle, verb, msgspec.json.Decoder(kind), verdict)

    async def _settle(
        self,
        verb: str,
        decoder: msgspec.json.Decoder[Any],
        verdict: Callable[[Any], Verdict | Extend],
        identity: Identity,
        scope: Scope,
        receive: AsgiReceive,
        send: answering.Send,
    ) -> None:
        service, shortcut = self._service, shortcut_of(scope)
        identity.check("receive")
        body = decode(await self._body(shortcut, receive), decoder)
        receipts = [to_receipt_or_none(text) for text in body.receipts]
        call = Settle(receipts, verdict(body))
        call.actor = identity.actor
        call.reaches = None if identity.sees_all else identity.reaches
        if service.tracing is None:
            outcomes = await self._perform(call)
        else:
            with service.tracing.settling(scope["headers"], verb, len(receipts)):
                outcomes = await self._perform(call)
        until = [call.until.get(seq) for seq, _ in receipts] if call.until else [None] * len(receipts)
        if service.streams:
            service.streams.learn(receipts, outcomes, call.until if isinstance(call.verdict, Extend) else None)
        await answering.answer_at_once(shortcut, send, 200, answering.results(body.receipts, outcomes, until))


def _reason(body: NackBody | RejectBody | RescheduleBody) -> str | None:
    return note(body.reason, "reason")


def _request_key(headers: Headers) -> str | None:
    for name, value in headers:
        if name == b"idempotency-key":
            if not 1 <= len(value) <= MAX_REQUEST_KEY or not value.isascii() or not value.decode().isprintable():
                raise InvalidArgument(f"Idempotency-Key takes 1 to {MAX_REQUEST_KEY} visible ASCII characters")
            return value.decode()
    return None
