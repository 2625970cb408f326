"""The API of plugin-keyval's queue: one queue, its messages one by one or as events, and its dead letters.

A dead letter keeps the id of its message: `id`, `originalId` and the `newId` of a requeue are the same. A message has one additional
field, `receipt`: a client that sends it back with an ack or a nack settles exactly that delivery, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import msgspec
from msgspec import Struct

from rowq.engine.arguments import note, to_receive
from rowq.errors import Forbidden, InvalidArgument, MessageNotFound, PayloadRejected, QueueNotFound
from rowq.model.lifecycle import Ack, Nack
from rowq.model.message import Message, State, Stats
from rowq.model.queue import check_own_name, dead_topic
from rowq.model.retry import Delays, Millis, PositiveMillis
from rowq.model.value import InFlight
from rowq.server.api.events import EventFormat, Flow
from rowq.server.compat.api import Answer, CompatRoute
from rowq.server.compat.keyval import format as wire
from rowq.server.compat.keyval.manifest import read_manifest
from rowq.server.compat.request import Adopted, CompatRequest, Settings
from rowq.server.http.errors import to_answer
from rowq.server.service import Service
from rowq.wire import MessageBody, to_prepared

LOCK_MS = 30_000
BACKOFF = Delays((1_000, 5_000, 10_000))
PING_EVERY = 2.0
"""A full stream is checked once a second and may start to wait after that; the silence stays below five seconds in total."""

_API = "/keyval/api"
_QUEUE = f"{_API}/queue"
_DEAD = f"{_QUEUE}/dlq"
_OK = Answer(200, b'{"ok":true}')


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `[compat.keyval]`; the manifest supplies the durations that are not set here."""

    queue: str = "keyval"
    lock_duration_ms: PositiveMillis | None = None
    cleanup_interval_ms: Millis | None = None
    """Accepted and unused: an expired lock is free at once, so no cleanup is needed."""
    in_flight: InFlight = 10
    """How many messages of a stream may be unsettled at a time."""
    manifest: str | None = None

    def __post_init__(self) -> None:
        """Reads the manifest here, so that an error is reported before the server listens."""
        try:
            check_own_name(self.queue)
            if self.manifest is not None:
                times = read_manifest(self.manifest)
                for name, value in (("lock_duration_ms", times.lock_duration), ("cleanup_interval_ms", times.cleanup_interval)):
                    if getattr(self, name) is None:
                        msgspec.structs.force_setattr(self, name, value)
        except InvalidArgument as error:
            raise ValueError(str(error)) from None


class CompatApi:
    name: ClassVar[str] = "keyval"

    def __init__(self, options: Options) -> None:
        self._queue = options.queue
        self._lock_ms = options.lock_duration_ms
        self._in_flight = options.in_flight
        self._adopted = Adopted()
        self._settings: Settings = {"lease_ms": self._lock_ms or LOCK_MS, "backoff": BACKOFF, "order": "ready"}

    def ways(self) -> Sequence[CompatRoute]:
        return (
            CompatRoute("POST", f"{_QUEUE}/enqueue", "send", self._enqueue),
            CompatRoute("GET", f"{_QUEUE}/listen", "receive", self._listen),
            CompatRoute("GET", f"{_QUEUE}/poll", "receive", self._poll),
            CompatRoute("POST", f"{_QUEUE}/ack", "receive", self._ack),
            CompatRoute("POST", f"{_QUEUE}/nack", "receive", self._nack),
            CompatRoute("GET", f"{_QUEUE}/stats", "look", self._stats),
            CompatRoute("GET", _DEAD, "look", self._list_dead),
            CompatRoute("DELETE", _DEAD, "admin", self._purge_dead),
            CompatRoute("GET", f"{_DEAD}/{{id}}", "look", self._get_dead),
            CompatRoute("DELETE", f"{_DEAD}/{{id}}", "admin", self._delete_dead),
            CompatRoute("POST", f"{_DEAD}/{{id}}/requeue", "admin", self._requeue),
            CompatRoute("GET", f"{_API}/keys", "look", self._list_keys),
        )

    def refuse(self, error: Exception) -> Answer:
        status, body, headers = to_answer(error)
        return Answer(400 if isinstance(error, PayloadRejected) else status, wire.problem(body), headers)

    async def live(self, service: Service) -> None:
        """Nothing: receive picks up due messages and expired leases, and the engine's maintenance does the rest."""

    async def _enqueue(self, request: CompatRequest) -> Answer:
        body = wire.read_message(request.body)
        options = body.options or wire.MessageOptions()
        schedule = None if options.backoff_schedule is None else [round(delay) for delay in options.backoff_schedule]
        message = MessageBody(
            payload=body.value,
            priority=options.priority or 0,
            delay_ms=round(options.delay or 0),
            max_attempts=None if schedule is None else len(schedule) + 1,
            backoff_ms=None if schedule is None else list(schedule),
            keys_if_undelivered=None if options.keys_if_undelivered is None else list(options.keys_if_undelivered),
        )
        prepared = to_prepared(self._queue, message)
        prepared.payload = msgspec.json.format(prepared.payload, indent=-1)  # the same tokens, without whitespace
        id = await request.send_one(self._queue, prepared, adopted=self._adopted, settings=self._settings)
        return _answer(wire.Enqueued(id=id))

    async def _poll(self, request: CompatRequest) -> Answer:
        rows = await request.take(self._queue, lease_ms=self._lock_ms)
        return _answer(wire.Polled(wire.to_message(rows[0]) if rows else None))

    async def _listen(self, request: CompatRequest) -> None:
        request.identity.check("receive", self._queue)
        new_call = to_receive(self._queue, lease_ms=self._lock_ms, actor=request.identity.actor)
        await Flow(request.service, request.identity, request.headers, _FORMAT, new_call, self._in_flight, PING_EVERY).pour(
            request.receive, request.send
        )

    async def _ack(self, request: CompatRequest) -> Answer:
        body = wire.read_settlement(request.body)
        await request.settle(self._queue, body.id, Ack(), body.receipt)
        return _OK

    async def _nack(self, request: CompatRequest) -> Answer:
        body = wire.read_settlement(request.body)
        await request.settle(self._queue, body.id, Nack(note(body.error, "error")), body.receipt)
        return _OK

    async def _stats(self, request: CompatRequest) -> Answer:
        request.identity.check("look", self._queue)
        try:
            stats = await request.service.look(request.service.engine.insights.stats, self._queue)
        except QueueNotFound:  # the first message creates the queue
            stats = Stats(queue=self._queue)
        pending = stats.ready + stats.scheduled + stats.blocked
        return _answer(wire.Counts(pending, stats.leased, stats.dead, pending + stats.leased + stats.dead))

    async def _list_dead(self, request: CompatRequest) -> Answer:
        request.identity.check("look", self._queue)
        page = request.read_query(wire.Page)
        newest = request.service.engine.insights.newest_dead
        found = await request.service.look(newest, self._queue, limit=page.limit, offset=page.offset)
        return _answer([wire.to_dead(message) for message in found])

    async def _get_dead(self, request: CompatRequest) -> Answer:
        return _answer(wire.to_dead(await self._find_dead(request)))

    async def _requeue(self, request: CompatRequest) -> Answer:
        request.identity.check("admin", self._queue)
        message = await self._find_dead(request)
        redrive = request.service.engine.verbs.redrive(self._queue, [message.id], None, None, None, None)
        if not await request.service.ask(redrive, request.identity.actor):
            raise _unknown(message.id)
        return _answer(wire.Requeued(new_id=message.id))

    async def _delete_dead(self, request: CompatRequest) -> Answer:
        request.identity.check("admin", self._queue)
        id = request.path["id"]
        deletion = request.service.engine.verbs.delete_dead(self._queue, [id], None, None, None, None)
        with suppress(QueueNotFound):
            if await request.service.ask(deletion, request.identity.actor):
                return _OK
        raise _unknown(id)

    async def _purge_dead(self, request: CompatRequest) -> Answer:
        request.identity.check("admin", self._queue)
        purge, count = request.service.engine.verbs.purge(dead_topic(self._queue), None), 0
        with suppress(QueueNotFound):
            count = await request.service.ask(purge, request.identity.actor)
        return _answer(wire.Purged(count))

    async def _list_keys(self, request: CompatRequest) -> Answer:
        if not request.identity.sees_all:
            raise Forbidden(
                f"the key {request.identity.name!r} may not do this: undelivered keys belong to all queues, and the key is for some"
            )
        look, keys = request.service.look, request.service.engine.insights.keys
        found = [entry for prefix in wire.read_prefixes(request.query) for entry in await look(keys, prefix)]
        return _answer([wire.to_entry(entry) for entry in found])

    async def _find_dead(self, request: CompatRequest) -> Message:
        request.identity.check("look", self._queue)
        id = request.path["id"]
        try:
            message = await request.service.look(request.service.engine.insights.get, id, self._queue)
        except MessageNotFound:
            raise _unknown(id) from None
        if message.state is not State.DEAD:
            raise _unknown(id)
        return message


_FORMAT = EventFormat(wire.message_event, b"event: ping\ndata:\n\n", wire.problem_event)


def _answer(body: object) -> Answer:
    return Answer(200, msgspec.json.encode(body))


def _unknown(id: str) -> MessageNotFound:
    return MessageNotFound(f"there is no dead letter {id!r}: it was requeued, deleted or purged, or never existed")
