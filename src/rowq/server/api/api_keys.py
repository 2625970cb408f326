"""API keys: who may do what on this server."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rowq.model.access import ALL_QUEUES, MAX_PATTERNS, ApiKey, Scope
from rowq.server.api.request import ApiRequest

KeyName = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9._-]{1,64}$"})]
Pattern = Annotated[str, Meta(extra_json_schema={"pattern": "^(?!.*[.-]dlq$)[A-Za-z0-9._*-]{1,64}$"})]


class NewKey(Struct, forbid_unknown_fields=True):
    """A new API key: what it may do, and with which queues; `*` stands for any characters."""

    name: KeyName
    scopes: Annotated[list[Scope], Meta(min_length=1)]
    queues: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=MAX_PATTERNS)] = ALL_QUEUES


class CreatedKey(Struct):
    """The secret is shown once, and not stored."""

    name: str
    secret: str


class ApiKeys(Struct):
    api_keys: list[ApiKey]


async def list_api_keys(asked: ApiRequest[None, None]) -> ApiKeys:
    return ApiKeys(await asked.service.look(asked.service.engine.insights.api_keys))


async def create_api_key(asked: ApiRequest[None, NewKey]) -> CreatedKey:
    body = asked.body
    secret = await asked.service.ask(asked.service.engine.verbs.create_key(body.name, body.scopes, body.queues), asked.actor)
    await asked.service.authenticator.refresh()
    return CreatedKey(body.name, secret)


async def revoke_api_key(asked: ApiRequest[None, None]) -> None:
    await asked.service.ask(asked.service.engine.verbs.revoke_key(asked.path["name"]), asked.actor)
    await asked.service.authenticator.refresh()
