"""Streams: consumers that take messages in numbered batches, and the operators' actions on them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rowq.engine.arguments import MAX_QUARANTINE
from rowq.model.stream import Stream
from rowq.model.value import Note, Storable
from rowq.server.api.request import ApiRequest
from rowq.wire import Count


class Streams(Struct):
    streams: list[Stream]


class QuarantineBody(Struct, forbid_unknown_fields=True):
    """Which messages of which batch become dead letters, and why."""

    batch: Annotated[int, Meta(ge=1, lt=1 << 62)]
    ids: Annotated[list[Storable], Meta(min_length=1, max_length=MAX_QUARANTINE)]
    reason: Note | None = None


async def list_streams(asked: ApiRequest[None, None]) -> Streams:
    return Streams(await asked.service.look(asked.service.engine.insights.streams))


async def revoke_stream(asked: ApiRequest[None, None]) -> Count:
    return Count(await asked.service.ask(asked.service.engine.verbs.revoke_stream(asked.path["stream"]), asked.actor))


async def quarantine(asked: ApiRequest[None, QuarantineBody]) -> Count:
    body = asked.body
    steps = asked.service.engine.verbs.quarantine(asked.path["stream"], body.batch, body.ids, body.reason)
    return Count(await asked.service.ask(steps, asked.actor))
