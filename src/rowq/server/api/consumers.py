"""Consumers of a queue, which send heartbeats and learn their share of the messages; and streams, which take numbered batches."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rowq.engine.arguments import MAX_QUARANTINE
from rowq.model.member import DEAD_AFTER, ID, LONGEST_SILENCE_MS, ConsumerLook, Member, Membership
from rowq.model.stream import Stream
from rowq.model.value import Note, Storable
from rowq.server.api.route import ApiRequest
from rowq.wire import Count

Silence = Annotated[int, Meta(ge=1, le=LONGEST_SILENCE_MS)]
Id = Annotated[str, Meta(pattern=f"^{ID}$")]

_DEAD_AFTER_MS = round(DEAD_AFTER * 1000)


class RegisterBody(Struct, forbid_unknown_fields=True):
    """A consumer that brings its own id stays one consumer however often it registers."""

    id: Id | None = None
    dead_after_ms: Silence = _DEAD_AFTER_MS


class BeatBody(Struct, forbid_unknown_fields=True):
    """After how long without a heartbeat a consumer is dead, and whether to remove dead ones."""

    dead_after_ms: Silence = _DEAD_AFTER_MS
    remove_dead: bool = False


class ConsumersQuery(Struct, forbid_unknown_fields=True):
    dead_after_ms: Silence = _DEAD_AFTER_MS


class Consumers(Struct):
    consumers: list[Member]


class AllConsumers(Struct):
    consumers: list[ConsumerLook]


class Streams(Struct):
    streams: list[Stream]


class QuarantineBody(Struct, forbid_unknown_fields=True):
    """Which messages of which batch become dead letters, and why."""

    batch: Annotated[int, Meta(ge=1, lt=1 << 62)]
    ids: Annotated[list[Storable], Meta(min_length=1, max_length=MAX_QUARANTINE)]
    reason: Note | None = None


async def register_consumer(asked: ApiRequest[None, RegisterBody]) -> Membership:
    body = asked.body
    return await asked.service.ask(asked.service.engine.verbs.register(asked.queue, body.dead_after_ms / 1000, body.id), asked.actor)


async def beat(asked: ApiRequest[None, BeatBody]) -> Membership:
    body = asked.body
    steps = asked.service.engine.verbs.beat(asked.queue, asked.path["consumer_id"], body.dead_after_ms / 1000, body.remove_dead)
    return await asked.service.ask(steps, asked.actor)


async def unregister_consumer(asked: ApiRequest[None, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.unregister(asked.queue, asked.path["consumer_id"]), asked.actor)


async def list_consumers(asked: ApiRequest[ConsumersQuery, None]) -> Consumers:
    steps = asked.service.engine.verbs.consumers(asked.queue, asked.query.dead_after_ms / 1000)
    return Consumers(await asked.service.ask(steps, asked.actor))


async def list_all_consumers(asked: ApiRequest[ConsumersQuery, None]) -> AllConsumers:
    steps = asked.service.engine.verbs.all_consumers(asked.query.dead_after_ms / 1000, asked.identity.reaches)
    return AllConsumers(await asked.service.ask(steps, asked.actor))


async def list_streams(asked: ApiRequest[None, None]) -> Streams:
    return Streams(await asked.service.look(asked.service.engine.insights.streams))


async def revoke_stream(asked: ApiRequest[None, None]) -> Count:
    return Count(await asked.service.ask(asked.service.engine.verbs.revoke_stream(asked.path["stream"]), asked.actor))


async def quarantine(asked: ApiRequest[None, QuarantineBody]) -> Count:
    body = asked.body
    steps = asked.service.engine.verbs.quarantine(asked.path["stream"], body.batch, body.ids, body.reason)
    return Count(await asked.service.ask(steps, asked.actor))
