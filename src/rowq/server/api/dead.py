"""Dead letters: back into their queue, or away."""

from __future__ import annotations

from rowq.model.message import State, Where
from rowq.model.queue import dead_topic, split_name
from rowq.server.asked import Asked
from rowq.wire import Count, RedriveBody


async def redrive(asked: Asked[None, RedriveBody]) -> Count:
    body, verbs = asked.body, asked.service.engine.verbs
    where = Where(
        reason=body.reason, error=body.error, key=body.key, group=body.group, died_before=body.died_before, died_after=body.died_after
    )
    return Count(await asked.service.ask(verbs.redrive(asked.queue, body.ids, where, body.limit, body.rate, None), asked.actor))


async def purge_dead(asked: Asked[None, None]) -> Count:
    name = dead_topic(split_name(asked.queue)[0])
    return Count(await asked.service.ask(asked.service.engine.verbs.purge(name, [State.DEAD]), asked.actor))
