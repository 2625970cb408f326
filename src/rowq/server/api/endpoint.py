"""The endpoint of one path: its methods, each read, checked, handled and answered the same way."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from rowq.errors import Forbidden, OutcomeUnknown, QueueNotFound
from rowq.model.queue import split_name
from rowq.server.api.route import EVENTS, ApiRequest, Handler, NoQuery, Route
from rowq.server.auth.authentication import ANONYMOUS, Identity
from rowq.server.http import answers, asgi
from rowq.server.http.errors import HttpError
from rowq.server.http.patience import first_of
from rowq.server.http.reading import decode, read_body, read_query
from rowq.server.service import Service


class Endpoint:
    def __init__(self, service: Service, routes: dict[str, Route]) -> None:
        self._service = service
        self._methods = {method: _Method(service, route, route.handler) for method, route in routes.items() if route.handler is not None}
        if "GET" in self._methods and routes["GET"].media != EVENTS:
            self._methods["HEAD"] = self._methods["GET"]
        self._allowed = ", ".join(sorted({*routes, *self._methods})).encode()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        method = self._methods.get(scope["method"])
        if method is None:
            sentence = f"{scope['method']} is not allowed here, only {self._allowed.decode()}"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", sentence, [(b"allow", self._allowed)])
        await method(scope, receive, send)


class _Method:
    def __init__(self, service: Service, route: Route, handler: Handler) -> None:
        self._service = service
        self._route = route
        self._handler = handler
        self._query = route.query or NoQuery
        self._lists = _lists(self._query)
        self._decoder = None if route.body is None else _decoder(route.body)

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        route, service = self._route, self._service
        path = scope.get("path_params", {})
        identity = self._admit(scope, path)
        query: Any = read_query(scope["query_string"], self._query, self._lists)
        body = None
        if self._decoder is not None:
            data = await read_body(receive, service.limits.max_body_bytes, service.stopwatch)
            body = decode(data or b"{}", self._decoder)
        asked: ApiRequest[Any, Any] = ApiRequest(service, identity, path, scope["headers"], query, body)
        try:
            if route.media == EVENTS:
                await self._handler(asked, receive, send)
                return
            found = await (self._watched(self._handler(asked), receive) if route.lasts else self._handler(asked))
        except QueueNotFound as error:
            raise error.among(identity.reaches) from None  # a key for some queues learns no other names
        if isinstance(found, Response):
            await found(scope, receive, send)
        elif found is None:
            await send({"type": "http.response.start", "status": route.status, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await answers.answer(send, route.status, answers.encode(found))

    async def _watched(self, work: Awaitable[Any], receive: asgi.Receive) -> Any:
        with self._service.patience() as stop:
            found = await first_of(work, receive, stop)
        if found is None:
            raise OutcomeUnknown("the server stopped during this request: what was done until then stays done; check, and request the rest")
        return found

    def _admit(self, scope: asgi.Scope, path: dict[str, str]) -> Identity:
        if self._route.right is None:
            return ANONYMOUS
        identity = self._service.authenticator.admit(scope)
        check_rights(self._route, identity, path)
        return identity


@cache
def _lists(query: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that may be repeated."""
    return frozenset(field.name for field in msgspec.structs.fields(query) if "list" in str(field.type))


@cache
def _decoder(body: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body)


def check_rights(route: Route, identity: Identity, path: dict[str, str]) -> None:
    """Raises Forbidden if the key may not use this route, or this queue."""
    if route.right is not None and route.right != "any":
        identity.check(route.right, split_name(path["queue"])[0] if "queue" in path else None)
    if route.of_the_whole and not identity.sees_all:
        raise Forbidden(f"the key {identity.name!r} may not do this: it concerns all queues, and the key is for some")
