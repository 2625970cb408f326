"""Operations: health, readiness, metrics, maintenance, and the doctor."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import Struct
from starlette.responses import Response

from rowq.engine.maintenance import TASKS, MaintenanceResult, MaintenanceTask
from rowq.errors import RowqError, ServerUnavailable
from rowq.server.api.request import ApiRequest
from rowq.server.http.errors import HttpError
from rowq.store.dialect import Finding
from rowq.wire import Count

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Findings(Struct):
    findings: list[Finding]


class Tasks(Struct):
    sweeps: tuple[MaintenanceTask, ...]


class Token(Struct):
    """For EventSource, which cannot send headers: `?token=` on an event stream, within a minute."""

    token: str
    expires_at: int


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
