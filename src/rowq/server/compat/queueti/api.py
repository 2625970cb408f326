"""The API of queue-ti: topics are queues, `<topic>.dlq` holds their dead letters, and a topic config is part of a queue's settings."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from rowq.engine.arguments import note
from rowq.engine.insights import Lease
from rowq.errors import BrokerClosed, Forbidden, InvalidArgument, MessageNotFound, RowqError
from rowq.model.access import Right
from rowq.model.lifecycle import Ack, Nack, Reject, Settlement
from rowq.model.message import Draft, Outcome, State, Stats
from rowq.model.queue import check_own_name, split_name
from rowq.server.auth.authentication import Identity
from rowq.server.compat.api import Answer, CompatRoute
from rowq.server.compat.queueti.listing import PageQuery, counts, page
from rowq.server.compat.queueti.message import MessageBody, delivered
from rowq.server.compat.queueti.topic import Options, TopicConfig
from rowq.server.compat.request import Adopted, CompatRequest
from rowq.server.http.errors import to_answer
from rowq.server.http.reading import decode
from rowq.server.service import Service
from rowq.store import registry
from rowq.store.call import Execute
from rowq.store.lookup import ambiguous
from rowq.store.row import DeliveryRow

__all__ = ["CompatApi", "Options"]

REAPER = "queueti-delete-reaper"
LOOK_EVERY = 1.0
_log = logging.getLogger("rowq.server")
_encode = msgspec.json.Encoder().encode
_NOTHING = Answer(HTTPStatus.NO_CONTENT)


class _Enqueue(Struct):
    topic: str
    payload: bytes
    metadata: dict[str, str] | None = None
    key: str | None = None


class _Dequeue(Struct):
    topic: str
    count: Annotated[int, Meta(ge=1, le=1_000)] = 1
    visibility_timeout_seconds: Annotated[int, Meta(ge=1, le=366 * 86_400)] | None = None
    consumer_group: str | None = None


class _Settle(Struct):
    error: str | None = None
    receipt: str | None = None
    consumer_group: str | None = None


class _Config(TopicConfig, frozen=True):
    """`replayable` belongs to a feature of queue-ti that is not supported."""

    replayable: bool | None = None


_enqueue, _dequeue = msgspec.json.Decoder(_Enqueue), msgspec.json.Decoder(_Dequeue)
_settle, _config = msgspec.json.Decoder(_Settle), msgspec.json.Decoder(_Config)


class CompatApi:
    name: ClassVar[str] = "queueti"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._beginning = options.beginning()
        self._adopted = Adopted()

    def ways(self) -> Sequence[CompatRoute]:
        topic = "/api/topic-configs/{topic}"
        return (
            CompatRoute("POST", "/api/messages", "send", self._enqueue),
            CompatRoute("GET", "/api/messages", "look", self._list),
            CompatRoute("POST", "/api/messages/dequeue", "receive", self._dequeue),
            CompatRoute("POST", "/api/messages/{id}/ack", "receive", self._ack),
            CompatRoute("POST", "/api/messages/{id}/nack", "receive", self._nack),
            CompatRoute("POST", "/api/messages/{id}/requeue", "admin", self._requeue),
            CompatRoute("GET", "/api/stats", "look", self._count),
            CompatRoute("GET", "/api/topic-configs", "look", self._list_configs),
            CompatRoute("GET", topic, "look", self._show_config),
            CompatRoute("PUT", topic, "admin", self._replace_config),
            CompatRoute("DELETE", topic, "admin", self._delete_config),
            CompatRoute("POST", "/api/admin/expiry-reaper/run", "admin", self._expire),
            CompatRoute("POST", "/api/admin/delete-reaper/run", "admin", self._reap),
            CompatRoute("GET", "/api/admin/delete-reaper/schedule", "admin", self._show_schedule),
        )

    def refuse(self, error: Exception) -> Answer:
        """`{"error"}` as in queue-ti, plus rowq's `code`."""
        return Answer(*to_answer(error))

    async def live(self, service: Service) -> None:
        """Runs the delete reaper on its schedule. Each time, exactly one of the servers on a database runs it."""
        schedule = self._options.schedule()
        if schedule is None:
            return
        clock, me = service.engine.clock, secrets.token_hex(8)
        due = schedule.next(clock.now())
        while True:
            await asyncio.sleep(min(LOOK_EVERY, max(0, due - clock.now()) / 1000))
            if clock.now() < due:
                continue
            try:
                await reap_if_first(service, me, due)
            except BrokerClosed:
                return
            except RowqError as error:
                _log.warning("the delete reaper of queue-ti failed, and runs again at its next scheduled time: %s", error)
            except Exception:
                _log.exception("the delete reaper of queue-ti failed, and runs again at its next scheduled time")
            due = schedule.next(max(due, clock.now()))

    async def _enqueue(self, request: CompatRequest) -> Answer:
        body = decode(request.body, _enqueue)
        draft = Draft(body.payload, key=body.key, headers=body.metadata)
        id = await request.send_one(body.topic, draft, adopted=self._adopted, settings=self._beginning)
        return _answer({"id": id}, HTTPStatus.CREATED)

    async def _dequeue(self, request: CompatRequest) -> Answer:
        body = decode(request.body, _dequeue)
        _refuse_group(body.consumer_group)
        lease_ms = None if body.visibility_timeout_seconds is None else body.visibility_timeout_seconds * 1000
        rows = await request.take(body.topic, max=body.count, lease_ms=lease_ms)
        messages: list[MessageBody] = []
        if rows:
            service, insights = request.service, request.service.engine.insights
            policy = await service.look(insights.policy, rows[0][1])
            known = await service.look(insights.leased, [row[DeliveryRow.SEQ] for row in rows])
            messages = [delivered(row, known[row[DeliveryRow.SEQ]], policy) for row in rows if row[DeliveryRow.SEQ] in known]
        return _answer({"messages": messages})

    async def _list(self, request: CompatRequest) -> Answer:
        query = request.read_query(PageQuery)
        insights, identity = request.service.engine.insights, request.identity
        if query.topic is None:
            queues = [stats.queue for stats in await _topics(request)]
        else:
            queues = [split_name(query.topic)[0]]
            identity.check("look", queues[0])
        return _answer(await request.service.look(page, insights, queues, query))

    async def _count(self, request: CompatRequest) -> Answer:
        insights, topics = request.service.engine.insights, await _topics(request)
        found = await request.service.look(lambda: [count for stats in topics for count in counts(insights, stats)])
        return _answer({"topics": found})

    async def _ack(self, request: CompatRequest) -> Answer:
        body = decode(request.body or b"{}", _settle)
        return await self._settle(request, Ack(), body)

    async def _nack(self, request: CompatRequest) -> Answer:
        """A dead letter has no retries: it stays dead, and is not received again until it is requeued."""
        body = decode(request.body or b"{}", _settle)
        error = note(body.error, "error")

        def settlement(lease: Lease) -> Settlement:
            return Reject(error) if lease.is_dead else Nack(error)

        return await self._settle(request, settlement, body)

    async def _settle(self, request: CompatRequest, settlement: Settlement | Callable[[Lease], Settlement], body: _Settle) -> Answer:
        _refuse_group(body.consumer_group)
        id = request.path["id"]
        if await request.settle(None, id, settlement, body.receipt) is not Outcome.DONE:
            raise MessageNotFound(f"message {id!r} is not being processed, or not by you: nothing was changed")
        return _NOTHING

    async def _requeue(self, request: CompatRequest) -> Answer:
        service, id = request.service, request.path["id"]
        engine = service.engine
        found = await service.look(engine.insights.find_each, id, request.identity.reaches)
        dead = [message.queue for message in found if message.state is State.DEAD]
        if len(dead) > 1:
            raise ambiguous(id, sorted(dead))
        for queue in dead:
            if await service.ask(engine.verbs.redrive(queue, [id], None, None, None, None), request.identity.actor):
                return _NOTHING
        raise MessageNotFound(f"message {id!r} is not waiting in the dead-letter queue, so there is nothing to requeue")

    async def _list_configs(self, request: CompatRequest) -> Answer:
        service, insights = request.service, request.service.engine.insights
        names = [stats.queue for stats in await _topics(request)]
        found = [(name, self._options.config(await service.look(insights.settings, name))) for name in names]
        return _answer({"items": [_shown(name, config) for name, config in found if not config.is_empty]})

    async def _show_config(self, request: CompatRequest) -> Answer:
        return _answer(_shown(request.path["topic"], await self._config_of(request, "look")))

    async def _replace_config(self, request: CompatRequest) -> Answer:
        topic = check_own_name(request.path["topic"])
        request.identity.check("admin", topic)
        config = decode(request.body or b"{}", _config)
        if config.replayable:
            raise InvalidArgument("this API does not support replayable topics: set `keep` on the queue, and see `rowq pipeline replay`")
        await self._adopted.adopt(request.service, topic, self._beginning, request.identity.actor)
        return _answer(_shown(topic, await self._write(request, topic, config)))

    async def _delete_config(self, request: CompatRequest) -> Answer:
        await self._config_of(request, "admin")
        await self._write(request, request.path["topic"], TopicConfig())
        return _NOTHING

    async def _config_of(self, request: CompatRequest, right: Right) -> TopicConfig:
        topic = request.path["topic"]
        request.identity.check(right, check_own_name(topic))
        return self._options.config(await request.service.look(request.service.engine.insights.settings, topic))

    async def _write(self, request: CompatRequest, topic: str, config: TopicConfig) -> TopicConfig:
        steps = request.service.engine.verbs.change_settings(topic, self._options.settings(config))
        return self._options.config(await request.service.ask(steps, request.identity.actor))

    async def _expire(self, request: CompatRequest) -> Answer:
        _check_whole(request.identity)
        return _answer({"expired": await request.service.ask(request.service.engine.maintenance.take_ended(), request.identity.actor)})

    async def _reap(self, request: CompatRequest) -> Answer:
        _check_whole(request.identity)
        return _answer({"deleted": await request.service.ask(request.service.engine.maintenance.reap(), request.identity.actor)})

    async def _show_schedule(self, request: CompatRequest) -> Answer:  # noqa: ARG002  # the signature of every handler
        return _answer({"schedule": self._options.delete_reaper_schedule})


async def reap_if_first(service: Service, holder: str, due: int) -> bool:
    """The duty lasts until the next minute begins: no schedule is due twice before that."""
    is_first = await service.engine.driver.perform(Execute(lambda tx: registry.take_duty(tx, REAPER, holder, due + 59_000), durable=False))
    if is_first:
        deleted = await service.ask(service.engine.maintenance.reap(), REAPER)
        _log.info("the delete reaper of queue-ti deleted %d messages", deleted)
    return is_first


async def _topics(request: CompatRequest) -> list[Stats]:
    """Those within reach."""
    found = await request.service.look(request.service.engine.insights.queues)
    return [stats for stats in found if request.identity.reaches(stats.queue)]


def _shown(topic: str, config: TopicConfig) -> dict[str, Any]:
    fields = ("max_retries", "message_ttl_seconds", "max_depth", "throughput_limit")
    return {"topic": topic, **{name: getattr(config, name) for name in fields}}


def _check_whole(identity: Identity) -> None:
    if not identity.sees_all:
        raise Forbidden(f"the key {identity.name!r} may not do this: it concerns all topics, and the key is for some")


def _refuse_group(group: str | None) -> None:
    if group:
        raise InvalidArgument("this API does not support consumer groups: give each group its own topic")


def _answer(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, _encode(value))
