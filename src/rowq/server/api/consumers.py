"""Registered consumers of a queue: each sends heartbeats, and learns its share of the messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rowq.model.member import DEAD_AFTER, ID, LONGEST_SILENCE_MS, ConsumerLook, Member, Membership
from rowq.server.api.request import ApiRequest

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
