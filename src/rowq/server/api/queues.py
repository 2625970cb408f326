"""Queues: depth, settings, pausing, purging, deleting."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rowq.engine.bulk import Progress
from rowq.model.message import Event, Stats
from rowq.model.page import MAX_PAGE
from rowq.model.queue import split_name
from rowq.model.value import Limit, QueueName, StateName
from rowq.server.api.route import ApiRequest
from rowq.wire import Count, Events, QueueLook, Queues, SettingsBody, of_settings, to_settings


class PurgeQuery(Struct, forbid_unknown_fields=True):
    """Without a state: the waiting messages (ready, scheduled, blocked)."""

    state: list[StateName] | None = None


class ActionsQuery(Struct, forbid_unknown_fields=True):
    queue: QueueName | None = None
    limit: Limit = 100


class SettingsQuery(Struct, forbid_unknown_fields=True):
    queue: QueueName | None = None


class QueueSettings(Struct):
    """A queue's own settings."""

    queue: str
    settings: SettingsBody


class AllSettings(Struct):
    """The queues' own settings, and the server's defaults. No messages are counted."""

    defaults: SettingsBody
    queues: list[QueueSettings]


async def list_queues(asked: ApiRequest[None, None]) -> Queues:
    found = await asked.service.look(asked.service.engine.insights.queues)
    return Queues([stats for stats in found if asked.identity.reaches(stats.queue)])


async def get_queue(asked: ApiRequest[None, None]) -> QueueLook:
    insights, queue = asked.service.engine.insights, asked.queue
    settings = await asked.service.look(insights.settings, queue)
    stats = await asked.service.look(insights.stats, queue)
    policy = await asked.service.look(insights.policy, queue)
    origins = await asked.service.look(insights.origins, queue)
    by_field = {"backoff_ms" if name == "backoff" else name: origin for name, origin in origins.items()}
    return QueueLook(stats, of_settings(settings), of_settings(policy), by_field)


async def get_stats(asked: ApiRequest[None, None]) -> Stats:
    return await asked.service.look(asked.service.engine.insights.stats, asked.queue)


async def get_policy(asked: ApiRequest[None, None]) -> SettingsBody:
    return of_settings(await asked.service.look(asked.service.engine.insights.policy, asked.queue))


async def list_settings(asked: ApiRequest[SettingsQuery, None]) -> AllSettings:
    insights, queue = asked.service.engine.insights, asked.query.queue
    if queue is None:
        found = await asked.service.look(insights.all_settings)
    else:
        asked.identity.check("look", queue)
        found = {queue: await asked.service.look(insights.settings, queue)}
    reached = [QueueSettings(name, of_settings(settings)) for name, settings in found.items() if asked.identity.reaches(name)]
    return AllSettings(of_settings(insights.defaults), reached)


async def configure(asked: ApiRequest[None, SettingsBody]) -> SettingsBody:
    changes = asked.service.engine.verbs.change_settings(asked.queue, to_settings(asked.body))
    return of_settings(await asked.service.ask(changes, asked.actor))


async def delete_queue(asked: ApiRequest[None, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.delete_queue(asked.queue), asked.actor)


async def pause(asked: ApiRequest[None, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.pause(asked.queue), asked.actor)


async def resume(asked: ApiRequest[None, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.resume(asked.queue), asked.actor)


async def purge(asked: ApiRequest[PurgeQuery, None], progress: Progress | None = None) -> Count:
    return Count(await asked.service.ask(asked.service.engine.verbs.purge(asked.queue, asked.query.state, progress), asked.actor))


async def list_actions(asked: ApiRequest[ActionsQuery, None]) -> Events:
    if asked.query.queue is not None and not asked.identity.reaches(split_name(asked.query.queue)[0]):
        return Events([])  # a key for some queues must not learn whether another exists
    limit = asked.query.limit if asked.identity.sees_all else MAX_PAGE  # events of other queues are filtered out afterwards
    found = await asked.service.look(asked.service.engine.insights.actions, asked.query.queue, limit)
    return Events([event for event in found if _is_reached(asked, event)][: asked.query.limit])


def _is_reached(asked: ApiRequest[Any, Any], event: Event) -> bool:
    return asked.identity.sees_all or bool(event.queue and asked.identity.reaches(split_name(event.queue)[0]))
