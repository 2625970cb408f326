"""Server-sent events: deliveries as they arrive, at most `in_flight` of them unsettled, and undelivered keys as they change.

When a client leaves, deliveries that were written to it wait for the end of their leases; those not yet written are released at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rowq.engine.arguments import NewReceive, to_receive
from rowq.errors import RowqError, Unauthorized
from rowq.model.draft import to_kv_key
from rowq.model.message import KvKey
from rowq.model.queue import DeliveryMode
from rowq.model.retry import PositiveMillis
from rowq.model.value import InFlight as Bound
from rowq.model.value import KeyPart, Note, Storable
from rowq.server.api.route import ApiRequest
from rowq.server.auth.authentication import Identity
from rowq.server.event_streams import InFlight
from rowq.server.http import answers, asgi
from rowq.server.http.errors import to_answer
from rowq.server.http.patience import ClientGone, first_of, is_gone
from rowq.server.service import Service
from rowq.store.call import Receive
from rowq.store.dialect import Row
from rowq.store.row import DeliveryRow
from rowq.wire import of_entry

PING_EVERY = 15.0
LOOK_EVERY = 1.0
MOST_AT_ONCE = 100
PIECE_BYTES = 64 << 10
PING = b"event: ping\ndata: {}\n\n"
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")],
}


class DeliveriesQuery(Struct, forbid_unknown_fields=True):
    in_flight: Bound = 10
    lease_ms: PositiveMillis | None = None
    consumer: Note | None = None
    delivery: DeliveryMode | None = None
    ping_ms: Annotated[int, Meta(ge=100, le=60_000)] = int(PING_EVERY * 1000)


async def stream_deliveries(asked: ApiRequest[DeliveriesQuery, None], receive: asgi.Receive, send: asgi.Send) -> None:
    query = asked.query
    queue, actor = asked.path["queue"], asked.identity.actor
    new_call = to_receive(queue, lease_ms=query.lease_ms, consumer=query.consumer, delivery=query.delivery, actor=actor)
    flow = Flow(asked.service, asked.identity, asked.headers, _NATIVE, new_call, query.in_flight, query.ping_ms / 1000)
    await flow.pour(receive, send)


class EventFormat(Struct, frozen=True):
    """The format of a stream of deliveries."""

    delivery: Callable[[Row], bytes]
    ping: bytes
    problem: Callable[[RowqError], bytes]
    """The status has already been sent, so an error is the last event."""
    greeting: bytes = b""


class Flow(Struct):
    """Streams deliveries to one client until it leaves; `new_call` takes the maximum number of messages."""

    service: Service
    identity: Identity
    headers: asgi.Headers
    format: EventFormat
    new_call: NewReceive
    in_flight: int
    ping_every: float

    async def pour(self, receive: asgi.Receive, send: asgi.Send) -> None:
        service = self.service
        stream = service.event_streams.open(self.in_flight)

        def new_call() -> Receive:
            return self.new_call(min(stream.room, MOST_AT_ONCE))

        await send(_START)
        if self.format.greeting:
            await _write(send, self.format.greeting)
        try:
            with service.patience() as stop:
                while not stop.is_set():
                    await self._make_room(stream, receive, stop, send)
                    if stop.is_set():
                        break
                    wait = service.ask(service.engine.verbs.wait_for(new_call, self.ping_every), self.identity.actor)
                    call = await first_of(wait, receive, stop)
                    self._check_still_known(call)
                    if call is not None:
                        self._trace(call)
                        await self._write_deliveries(stream, call, receive, send)
            await _end(send)
        except ClientGone:
            return
        except RowqError as error:
            await _write(send, self.format.problem(error))
            await _end(send)
        finally:
            stream.close()

    def _check_still_known(self, call: Receive | None) -> None:
        """A stream may outlive the key that opened it."""
        if not self.service.authenticator.holds(self.identity):
            if call is not None:
                self.service.engine.give_back(call)
            raise Unauthorized("the key that opened this stream was revoked")

    def _trace(self, call: Receive) -> None:
        if call.result and self.service.tracing is not None:
            with self.service.tracing.receiving(self.headers, call.topic) as received:
                received.hand_out(call.result)

    async def _make_room(self, stream: InFlight, receive: asgi.Receive, stop: asyncio.Event, send: asgi.Send) -> None:
        """Returns when fewer than `in_flight` deliveries are unsettled."""
        loop, service = asyncio.get_running_loop(), self.service
        pinged = loop.time()
        while stream.room <= 0 and not stop.is_set():
            stream.freed.clear()
            await first_of(_within(stream.freed.wait(), LOOK_EVERY), receive, stop)
            stream.forget_ended(service.engine.clock.now())
            if stream.room <= 0:
                stream.keep_only(await service.look(service.engine.insights.leases, stream.seqs))
            if loop.time() - pinged > self.ping_every:
                await _write(send, self.format.ping)
                pinged = loop.time()

    async def _write_deliveries(self, stream: InFlight, call: Receive, receive: asgi.Receive, send: asgi.Send) -> None:
        """In batches, since a slow client may leave in the middle: deliveries not yet sent are released."""
        rows = call.result or []
        while True:
            if rows and is_gone(receive):
                call.result = rows
                self.service.engine.give_back(call)
                raise ClientGone
            piece = b""
            while rows and len(piece) < PIECE_BYTES:
                row, *rows = rows
                stream.hold(row[DeliveryRow.SEQ], row[DeliveryRow.TOKEN], row[DeliveryRow.UNTIL])
                piece += self.format.delivery(row)
            await _write(send, piece or self.format.ping)
            if not rows:
                return


def _delivery_event(row: Row) -> bytes:
    body = answers.delivery(row)
    return b"event: delivery\nid: %s\ndata: %s\n\n" % (body.id.encode(), one_line(answers.encode(body)))


def _problem_event(error: RowqError) -> bytes:
    return b"event: problem\ndata: %s\n\n" % to_answer(error)[1]


_NATIVE = EventFormat(_delivery_event, PING, _problem_event, b": rowq\n\n")


class RemovedKey(Struct):
    """An undelivered key that was removed."""

    key: list[KeyPart]


class WatchQuery(Struct, forbid_unknown_fields=True):
    prefix: Storable | None = None
    ping_ms: Annotated[int, Meta(ge=100, le=60_000)] = int(PING_EVERY * 1000)


async def stream_keys(asked: ApiRequest[WatchQuery, None], receive: asgi.Receive, send: asgi.Send) -> None:
    """`set` for each undelivered key under the prefix, now and later; `removed` when one is removed."""
    service, prefix = asked.service, to_key(asked.query.prefix)
    if prefix:
        to_kv_key(prefix)  # once the stream has begun it is too late for an error status
    await send(_START)
    loop = asyncio.get_running_loop()
    try:
        with service.patience() as stop:
            written = loop.time()
            async for piece in _key_changes(service, prefix, lambda: first_of(asyncio.sleep(LOOK_EVERY), receive, stop)):
                if stop.is_set():
                    break
                if piece or loop.time() - written > asked.query.ping_ms / 1000:
                    await _write(send, piece or PING)
                    written = loop.time()
        await _end(send)
    except ClientGone:
        return
    except RowqError as error:
        await _write(send, _problem_event(error))
        await _end(send)


async def _key_changes(service: Service, prefix: KvKey, rest: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    known: dict[bytes, tuple[int, str]] = {}
    while True:
        entries = await service.look(service.engine.insights.keys, prefix)
        current = {answers.encode(entry.key): entry for entry in entries}
        pieces = [
            b"event: set\ndata: %s\n\n" % one_line(answers.encode(of_entry(entry)))
            for key, entry in current.items()
            if known.get(key) != (entry.written_at, entry.id)
        ]
        pieces += [b'event: removed\ndata: {"key":%s}\n\n' % key for key in known if key not in current]
        known = {key: (entry.written_at, entry.id) for key, entry in current.items()}
        yield b"".join(pieces)
        await rest()


def to_key(text: str | None) -> KvKey:
    """A key in a query: a JSON list of parts, or one part as plain text."""
    if text is None or text == "":
        return ()
    if text.startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str | int])
        except msgspec.MsgspecError:
            return text
    return text


def one_line(data: bytes) -> bytes:
    """Payloads are stored as written and may hold line breaks between tokens; an event's data may not."""
    return data if b"\n" not in data and b"\r" not in data else data.replace(b"\r", b" ").replace(b"\n", b" ")


async def _within(wait: Awaitable[object], seconds: float) -> None:
    task = asyncio.ensure_future(wait)
    try:
        await asyncio.wait((task,), timeout=seconds)
    finally:
        task.cancel()


async def _write(send: asgi.Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _end(send: asgi.Send) -> None:
    await send({"type": "http.response.body", "body": b""})
