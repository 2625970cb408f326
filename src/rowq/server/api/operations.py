"""Operations: health, readiness, metrics, maintenance, and the doctor; and access: API keys and tokens."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from rowq.engine.maintenance import TASKS, MaintenanceResult, MaintenanceTask
from rowq.errors import RowqError, ServerUnavailable
from rowq.model.access import ALL_QUEUES, MAX_PATTERNS, ApiKey, Scope
from rowq.server.api.route import ApiRequest
from rowq.server.http.errors import HttpError
from rowq.store.dialect import Finding
from rowq.wire import Count

KeyName = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9._-]{1,64}$"})]
Pattern = Annotated[str, Meta(extra_json_schema={"pattern": "^(?!.*[.-]dlq$)[A-Za-z0-9._*-]{1,64}$"})]
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Findings(Struct):
    findings: list[Finding]


class Tasks(Struct):
    sweeps: tuple[MaintenanceTask, ...]


class Token(Struct):
    """For EventSource, which cannot send headers: `?token=` on an event stream, within a minute."""

    token: str
    expires_at: int


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


async def healthcheck(asked: ApiRequest[None, None]) -> None:
    """The database answers."""
    try:
        await asked.service.look(asked.service.engine.ping)
    except RowqError as error:
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "forq.unhealthy", f"the database does not answer: {error}") from None


async def readyz(asked: ApiRequest[None, None]) -> None:
    """The server is not stopping, and the database answers."""
    if asked.service.is_stopping:
        raise ServerUnavailable("the server is stopping")
    await healthcheck(asked)


async def metrics(asked: ApiRequest[None, None]) -> Response:
    if asked.service.metrics is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "not_found", "metrics are switched off")
    return Response(await asked.service.metrics.render(), headers={"content-type": METRICS_TYPE, "cache-control": "no-store"})


# The names of these three are operation ids in OpenAPI, by which generated clients call them.
async def sweep(asked: ApiRequest[None, None]) -> MaintenanceResult:
    return await asked.service.ask(asked.service.engine.maintenance.run_all(), asked.actor)


async def list_sweeps(asked: ApiRequest[None, None]) -> Tasks:  # noqa: ARG001  # the list is the same for every caller
    return Tasks(TASKS)


async def run_sweep(asked: ApiRequest[None, None]) -> Count:
    return Count(await asked.service.ask(asked.service.engine.maintenance_tasks.run(asked.path["sweep"]), asked.actor))


async def doctor(asked: ApiRequest[None, None]) -> Findings:
    return Findings(await asked.service.look(asked.service.engine.examine))


async def issue_token(asked: ApiRequest[None, None]) -> Token:
    return Token(*asked.service.authenticator.issue_token(asked.identity))


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
