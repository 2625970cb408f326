"""Dead letters: why they died, back into their queue, or away."""

from __future__ import annotations

from msgspec import Struct

from rowq.errors import InvalidArgument
from rowq.model.failure import Failures
from rowq.model.message import State, Where
from rowq.model.queue import dead_topic, split_name
from rowq.model.value import Limit
from rowq.pieces import Progress
from rowq.server.asked import Asked
from rowq.store.operating import Redrive, Removal
from rowq.wire import Count, RedriveBody


class FailuresQuery(Struct, forbid_unknown_fields=True):
    limit: Limit = 100


async def list_failures(asked: Asked[FailuresQuery, None]) -> Failures:
    return await asked.service.look(asked.service.engine.insights.failures, asked.queue, limit=asked.query.limit)


async def redrive(asked: Asked[None, RedriveBody], progress: Progress | None = None) -> Count:
    return await _treat(asked, Redrive, progress)


async def remove(asked: Asked[None, RedriveBody], progress: Progress | None = None) -> Count:
    body = asked.body
    if body.ids is None and _where(body) == Where():
        raise InvalidArgument("say which dead letters to remove, by ids or by what they have in common; DELETE removes all")
    return await _treat(asked, Removal, progress)


async def purge_dead(asked: Asked[None, None], progress: Progress | None = None) -> Count:
    name = dead_topic(split_name(asked.queue)[0])
    return Count(await asked.service.ask(asked.service.engine.verbs.purge(name, [State.DEAD], progress), asked.actor))


async def _treat(asked: Asked[None, RedriveBody], kind: type[Redrive], progress: Progress | None) -> Count:
    body, verbs = asked.body, asked.service.engine.verbs
    steps = verbs.redrive(asked.queue, body.ids, _where(body), body.limit, body.rate, progress, kind)
    return Count(await asked.service.ask(steps, asked.actor))


def _where(body: RedriveBody) -> Where:
    """A body has every field of it by the same name, and some more."""
    return Where(**{field: getattr(body, field) for field in Where.__struct_fields__})
