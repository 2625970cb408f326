"""The ASGI application: hot requests go straight to their handlers, all others through Starlette's router."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from http import HTTPStatus

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from rowq.server.api.endpoint import Endpoint
from rowq.server.api.hot_routes import HotRoutes
from rowq.server.api.routes import ROUTES, Route
from rowq.server.compat.api import to_routes
from rowq.server.http import answers, asgi
from rowq.server.http.errors import HttpError, to_answer
from rowq.server.http.patience import ClientGone
from rowq.server.service import Service
from rowq.store.meter import RequestMeter

_log = logging.getLogger("rowq.server")


class Application:
    def __init__(self, service: Service) -> None:
        self.service = service
        self._hot = HotRoutes(service)
        self._rest = _router(service)
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
                await handler(subject, self.service.authenticator.admit(scope), scope, receive, send)
        except ClientGone:
            return
        except Exception as error:
            status, body, headers = _flat(error)
            await answers.answer(send, status, body, headers)
        if status:
            self._answered(request, status, time.perf_counter() - began)

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
