"""What every compatible API provides: its routes, its error format, and its background task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct
from starlette.routing import Route as StarletteRoute

from rowq.errors import InvalidArgument, QueueNotFound
from rowq.model.access import Right
from rowq.server.compat.request import CompatRequest
from rowq.server.http import answers, asgi
from rowq.server.http.errors import HttpError
from rowq.server.http.patience import ClientGone
from rowq.server.http.reading import read_body, split_query
from rowq.server.service import Service

_JSON = (b"content-type", b"application/json")
_NEVER_STORED = (b"cache-control", b"no-store")


class Answer(NamedTuple):
    """`body` is JSON, or None for an empty body."""

    status: int
    body: bytes | None = None
    headers: asgi.Headers | None = None


Handler = Callable[[CompatRequest], Awaitable[Answer | None]]
"""None: the handler has already answered, as an event stream does."""


class CompatRoute(Struct, frozen=True):
    """A method and a path of a compatible API, and the scope it requires; the request's verbs check the queue."""

    method: str
    path: str
    right: Right
    handler: Handler
    max_body_bytes: int | None = None
    """Set if the original's limit differs from the server's."""


class CompatApi(Protocol):
    name: ClassVar[str]

    def ways(self) -> Sequence[CompatRoute]: ...

    def refuse(self, error: Exception) -> Answer:
        """An error in this API's format, including errors of authentication and of HTTP itself."""

    async def live(self, service: Service) -> None:
        """Its background task, until it is cancelled; most have none."""


def to_routes(service: Service, apis: Iterable[CompatApi]) -> list[StarletteRoute]:
    by_path: dict[tuple[str, str], _Endpoint] = {}
    for api in apis:
        for way in api.ways():
            by_path.setdefault((api.name, way.path), _Endpoint(service, api)).add(way)
    return [StarletteRoute(path, endpoint) for (_, path), endpoint in by_path.items()]


class _Endpoint:
    """The routes of one path, by method."""

    def __init__(self, service: Service, api: CompatApi) -> None:
        self._service = service
        self._api = api
        self._ways: dict[str, CompatRoute] = {}

    def add(self, way: CompatRoute) -> None:
        self._ways[way.method] = way

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        watched = answers.Watched(send)
        try:
            answer = await self._answer(scope, receive, watched)
        except ClientGone:
            raise
        except Exception as error:
            if watched.has_begun:
                raise
            if isinstance(error, QueueNotFound):
                error = error.among(lambda name: False)  # suggests no other names: the key may not see them
            answer = self._api.refuse(error)
        if answer is not None:
            await _write(send, answer)

    async def _answer(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> Answer | None:
        service = self._service
        way = self._ways.get(scope["method"])
        if way is None:
            allowed = ", ".join(sorted(self._ways))
            sentence = f"{scope['method']} is not allowed here, only {allowed}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", sentence, [(b"allow", allowed.encode())])
        identity = service.authenticator.admit(scope)
        identity.check(way.right)
        query = _read_query(scope["query_string"])
        body = (
            b"" if way.method == "GET" else await read_body(receive, way.max_body_bytes or service.limits.max_body_bytes, service.stopwatch)
        )
        return await way.handler(
            CompatRequest(service, identity, scope.get("path_params", {}), scope["headers"], query, body, receive, send)
        )


def _read_query(query: bytes) -> dict[str, str]:
    try:
        return dict(split_query(query))
    except ValueError as error:
        raise InvalidArgument(f"the query cannot be read: {error}") from None


async def _write(send: asgi.Send, answer: Answer) -> None:
    lines = [*(answer.headers or []), _NEVER_STORED]
    if answer.body is not None:
        lines += [_JSON, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": lines})
    await send({"type": "http.response.body", "body": answer.body or b""})
