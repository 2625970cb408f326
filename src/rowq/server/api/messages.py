"""Messages: reading one, a page, or all as a stream; the history of one; deleting one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.responses import StreamingResponse

from rowq.model.message import Message
from rowq.model.queue import split_name
from rowq.model.value import Limit, QueueName, StateName, Storable
from rowq.server.api.route import ApiRequest
from rowq.store.lookup import Reach, not_found, only
from rowq.wire import DeadFilter, Events, MessageLook, Messages, of_message

Moment = Annotated[int, Meta(ge=0, lt=1 << 62)]

_PIECE = 200


class DeadQuery(DeadFilter, forbid_unknown_fields=True):
    text: Storable | None = None
    sent_after: Moment | None = None
    sent_before: Moment | None = None
    after: Storable | None = None
    limit: Limit = 100
    newest: bool = False


class BrowseQuery(DeadQuery, forbid_unknown_fields=True):
    state: StateName = "ready"


class MessageQuery(Struct, forbid_unknown_fields=True):
    """The queue of the message; without it, the only queue within the caller's reach that has a message with this id."""

    queue: QueueName | None = None


class WalkQuery(Struct, forbid_unknown_fields=True):
    queue: QueueName | None = None
    state: list[StateName] | None = None


async def browse(asked: ApiRequest[BrowseQuery, None]) -> Messages:
    return await _page(asked, **msgspec.structs.asdict(asked.query))


async def browse_dead(asked: ApiRequest[DeadQuery, None]) -> Messages:
    return await _page(asked, state="dead", **msgspec.structs.asdict(asked.query))


async def get_message(asked: ApiRequest[MessageQuery, None]) -> MessageLook:
    return of_message(await asked.service.look(asked.service.engine.insights.find, asked.path["id"], _reach(asked)))


async def delete_message(asked: ApiRequest[MessageQuery, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.delete_within(asked.path["id"], _reach(asked)), asked.actor)


async def audit(asked: ApiRequest[MessageQuery, None]) -> Events:
    """The history may outlive the message."""
    found = await asked.service.look(asked.service.engine.insights.find_events, asked.path["id"], _reach(asked))
    if not found and not asked.identity.sees_all:
        raise not_found(asked.path["id"])
    return Events(found)


async def walk(asked: ApiRequest[WalkQuery, None]) -> StreamingResponse:
    """Every message as of this moment, one per line."""
    service, query = asked.service, asked.query
    service.engine.check_open()
    if query.queue is not None:
        asked.identity.check("look", split_name(query.queue)[0])
    found = service.engine.insights.walk(query.queue, query.state)
    first = await asyncio.to_thread(_lines, found)
    return StreamingResponse(_pieces(asked, found, first), media_type="application/x-ndjson", headers={"cache-control": "no-store"})


async def _pieces(asked: ApiRequest[WalkQuery, None], found: Iterator[Message], first: list[Message]) -> AsyncIterator[bytes]:
    piece = first
    try:
        while piece:
            yield b"".join([msgspec.json.encode(of_message(one)) + b"\n" for one in piece if asked.identity.reaches(one.queue)])
            piece = await asyncio.to_thread(_lines, found)
    finally:
        await asyncio.to_thread(found.close)  # type: ignore[attr-defined]  # a generator that holds a reader


def _lines(found: Iterator[Message]) -> list[Message]:
    return list(islice(found, _PIECE))


async def _page(asked: ApiRequest[BrowseQuery, None] | ApiRequest[DeadQuery, None], **options: object) -> Messages:
    found = await asked.service.look(asked.service.engine.insights.browse_once, asked.queue, **options)  # type: ignore[arg-type]
    return Messages([of_message(message) for message in found.messages], found.next)


def _reach(asked: ApiRequest[MessageQuery, None]) -> Reach:
    """The queue that the caller names, or all within its reach: messages of other queues do not exist for it."""
    if asked.query.queue is None:
        return asked.identity.reaches
    asked.identity.check("look", split_name(asked.query.queue)[0])
    return only(asked.query.queue)
