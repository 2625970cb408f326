"""The ASGI application: hot requests go straight to their handlers, all others through Starlette's router."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from rowq.server.api.endpoint import Endpoint
from rowq.server.api.hot_routes import AsgiRequest, Handler, HotRoutes
from rowq.server.api.routes import ROUTES, Route
from rowq.server.auth.authentication import Admit
from rowq.server.compat.api import to_routes
from rowq.server.http import answers, asgi, exchange
from rowq.server.http.errors import HttpError, to_answer
from rowq.server.http.exchange import Beginner, Exchange, Heads
from rowq.server.http.patience import ClientGone
from rowq.server.http.shortcut import shortcut_of
from rowq.server.service import Service
from rowq.store.meter import RequestMeter

_log = logging.getLogger("rowq.server")


class Application:
    def __init__(self, service: Service) -> None:
        self.service = service
        self._hot = HotRoutes(service)
        self._rest = _router(service)
        self.heads = Heads()
        meter = service.engine.meter
        self._answered = (RequestMeter() if meter is None else meter.requests).answered

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "http":
            await _live(receive, send)
            return
        began, request, status = time.perf_counter(), "other", 200
        try:
            hot = self._hot.find(scope["path"]) if scope["method"] == "POST" else None
            if hot is None:
                status = await self._route(scope, receive, send)
            else:
                handler, subject = hot
                request = handler.__name__
                identity, shortcut = self.service.authenticator.admit(scope), shortcut_of(scope)
                status, body = await handler(subject, identity, AsgiRequest(scope["headers"], receive, shortcut))
                if shortcut is None or not shortcut.answer(status, body):
                    await answers.answer(send, status, body)
        except ClientGone:
            return
        except Exception as error:
            status, body, headers = _flat(error)
            await answers.answer(send, status, body, headers)
        if status:
            self._answered(request, status, time.perf_counter() - began)

    @property
    def beginner(self) -> Beginner | None:
        """Serves hot requests without ASGI; None where a request is traced."""
        return self if self.service.tracing is None else None

    def find_handler(self, scope: asgi.Scope) -> exchange.Handler | None:
        hot = self._hot.find(scope["path"]) if scope["method"] == "POST" else None
        admit = None if hot is None else self.service.authenticator.remember(scope)
        return None if hot is None or admit is None else partial(self._serve, *hot, admit)

    async def _serve(self, handler: Handler, subject: Any, admit: Admit, request: Exchange) -> None:
        """A request with a known head."""
        began = time.perf_counter()
        try:
            status, body = await handler(subject, admit(request.client), request)
            request.answer(status, body)
        except ClientGone:
            return
        except Exception as error:
            status, body, headers = _flat(error)
            request.answer(status, body, headers)
        self._answered(handler.__name__, status, time.perf_counter() - began)

    async def _route(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> int:
        """The status of the answer; 0 if the client was gone."""
        watched = answers.Watched(send)
        try:
            await self._rest(scope, receive, watched)
            return watched.status
        except Exception:
            if not watched.has_begun:
                raise
            # The connection is cut off: the client must not take half an answer for a whole one.
            _log.exception("an answer was cut off: %s", scope["path"])
            raise ClientGone from None


def _flat(error: Exception) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    status, body, headers = to_answer(error)
    return int(status), body, headers


def _router(service: Service) -> Router:
    by_path: defaultdict[str, dict[str, Route]] = defaultdict(dict)
    for route in ROUTES:
        if route.path not in service.closed:
            by_path[route.path][route.method] = route
    return Router(
        [*(StarletteRoute(path, Endpoint(service, routes)) for path, routes in by_path.items()), *to_routes(service, service.compat)],
        default=_not_found,
        redirect_slashes=False,
    )


async def _not_found(scope: asgi.Scope, *_: object) -> None:
    raise HttpError(HTTPStatus.NOT_FOUND, "not_found", f"there is nothing at {scope['path']!r}: see /docs for the API")


async def _live(receive: asgi.Receive, send: asgi.Send) -> None:
    """Answers the lifespan protocol. The engine is opened and closed by the code that runs the server, so there is nothing to do."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
