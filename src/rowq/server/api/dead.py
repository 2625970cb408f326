"""Dead letters: failures by cause, redriving, deleting; and the payloads kept under the keys that producers chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from rowq.engine.bulk import Progress
from rowq.engine.operation import Operation
from rowq.errors import NotFound
from rowq.model.failure import Failures
from rowq.model.message import State, Where
from rowq.model.queue import dead_topic, split_name
from rowq.model.value import Limit, Storable
from rowq.server.api.events import to_key
from rowq.server.api.route import ApiRequest
from rowq.wire import Count, Entries, RedriveBody, of_entry


class FailuresQuery(Struct, forbid_unknown_fields=True):
    limit: Limit = 100


class KeysQuery(Struct, forbid_unknown_fields=True):
    """A JSON list of parts, or one part as plain text."""

    prefix: Storable | None = None


class KeyQuery(Struct, forbid_unknown_fields=True):
    key: Annotated[Storable, Meta(min_length=1)]


async def list_failures(asked: ApiRequest[FailuresQuery, None]) -> Failures:
    return await asked.service.look(asked.service.engine.insights.failures, asked.queue, limit=asked.query.limit)


async def redrive(asked: ApiRequest[None, RedriveBody], progress: Progress | None = None) -> Count:
    return await _treat(asked, asked.service.engine.verbs.redrive, progress)


async def remove(asked: ApiRequest[None, RedriveBody], progress: Progress | None = None) -> Count:
    return await _treat(asked, asked.service.engine.verbs.delete_dead, progress)


async def purge_dead(asked: ApiRequest[None, None], progress: Progress | None = None) -> Count:
    name = dead_topic(split_name(asked.queue)[0])
    return Count(await asked.service.ask(asked.service.engine.verbs.purge(name, [State.DEAD], progress), asked.actor))


async def _treat(asked: ApiRequest[None, RedriveBody], verb: Callable[..., Operation[int]], progress: Progress | None) -> Count:
    body = asked.body
    where = Where(**{field: getattr(body, field) for field in Where.__struct_fields__})  # the body has each of them under the same name
    return Count(await asked.service.ask(verb(asked.queue, body.ids, where, body.limit, body.rate, progress), asked.actor))


async def list_keys(asked: ApiRequest[KeysQuery, None]) -> Entries:
    found = await asked.service.look(asked.service.engine.insights.keys, to_key(asked.query.prefix))
    return Entries([of_entry(entry) for entry in found])


async def forget_key(asked: ApiRequest[KeyQuery, None]) -> None:
    if not await asked.service.ask(asked.service.engine.verbs.forget(to_key(asked.query.key)), asked.actor):
        raise NotFound(f"nothing is kept under {asked.query.key!r}")
