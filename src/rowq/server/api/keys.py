"""The undelivered keys: payloads of messages that died, under the keys that their producers chose."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rowq.errors import NotFound
from rowq.model.value import Storable
from rowq.server.api.events import to_key
from rowq.server.api.request import ApiRequest
from rowq.wire import Entries, of_entry


class KeysQuery(Struct, forbid_unknown_fields=True):
    """A JSON list of parts, or one part as plain text."""

    prefix: Storable | None = None


class KeyQuery(Struct, forbid_unknown_fields=True):
    key: Annotated[Storable, Meta(min_length=1)]


async def list_keys(asked: ApiRequest[KeysQuery, None]) -> Entries:
    found = await asked.service.look(asked.service.engine.insights.keys, to_key(asked.query.prefix))
    return Entries([of_entry(entry) for entry in found])


async def forget_key(asked: ApiRequest[KeyQuery, None]) -> None:
    if not await asked.service.ask(asked.service.engine.verbs.forget(to_key(asked.query.key)), asked.actor):
        raise NotFound(f"nothing is kept under {asked.query.key!r}")
