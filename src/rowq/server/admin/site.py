"""The admin site: a separate application on its own port. Every request is authenticated, checked, and answered with the same headers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from rowq.errors import InvalidArgument, Unauthorized
from rowq.server.admin.context import AdminContext
from rowq.server.admin.pages import PAGES, Page
from rowq.server.admin.request import AdminRequest
from rowq.server.admin.session import SAFE, Visitor
from rowq.server.http import answers, asgi
from rowq.server.http.errors import HttpError, to_answer
from rowq.server.http.patience import ClientGone
from rowq.server.http.reading import read_body
from rowq.server.logs import KEY_IN_SCOPE
from rowq.server.service import Service
from rowq.wire import Problem

_log = logging.getLogger("rowq.server")

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_MAX_FIELDS = 12_000
"""Fields of a form: up to ten thousand messages may be selected at once."""
_MOST_OF_STRANGERS = 64 << 10
"""Bytes of a form from a visitor without a session."""


class Site:
    def __init__(self, service: Service, *, database: str = "", workers: int = 1, api: str = "http://localhost:8080") -> None:
        """`database`: its URL without the password. `workers`: how many processes serve it. `api`: where the API is."""
        menu = tuple(page for page in PAGES if page.menu)
        self.context = context = AdminContext(service, menu, database=database, workers=workers, api=api)
        by_path: dict[str, dict[str, Page]] = {}
        for page in PAGES:
            by_path.setdefault(page.path, {})[page.method] = page
        endpoints = [StarletteRoute(path, _Endpoint(context, pages)) for path, pages in by_path.items()]
        routes = [StarletteRoute("/static/{name}", context.static), *endpoints]
        self._router = Router(routes, default=_Endpoint(context, {}), redirect_slashes=False)  # such a redirect would trust the Host header

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "http":
            return
        watched = answers.Watched(send)
        try:
            await self._router(scope, receive, watched)
        except ClientGone:
            return
        except Exception:
            if watched.has_begun:
                _log.exception("a response was cut off: %s", scope["path"])
                return
            raise


class _Endpoint:
    """The pages of one path, by method."""

    def __init__(self, context: AdminContext, pages: dict[str, Page]) -> None:
        self._context = context
        self._pages = pages if "GET" not in pages or pages["GET"].streams else {**pages, "HEAD": pages["GET"]}

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        visitor: Visitor | None = None
        try:
            visitor = await self._context.sessions.greet(scope)
            scope[KEY_IN_SCOPE] = None if visitor.identity is None else visitor.identity.name
            response = await self._answer(visitor, scope, receive, send)
        except ClientGone:
            raise
        except Exception as error:
            response = self._refuse(error, visitor, scope)
        if response is None:
            return
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if visitor is not None and visitor.is_new and "set-cookie" not in response.headers:
            visitor.give_cookie(response)
        await response(scope, receive, send)

    async def _answer(self, visitor: Visitor, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> Response | None:
        method = scope["method"]
        page = self._find(method, scope["path"])
        if visitor.identity is None and not page.is_open:
            return _to_login(scope)
        request = _to_request(self._context, visitor, scope, await self._form(page, receive) if method not in SAFE else {})
        if method not in SAFE:
            visitor.check_form(request.headers.get("x-csrf-token") or request.form.get("csrf", [None])[-1])
        if page.of_the_whole and not request.identity.sees_all:
            return request.show("operations/whole.html", status=403, name=page.menu)
        handler: Any = page.handler
        if page.streams:
            await handler(request, receive, send)
            return None
        response: Response = await handler(request)
        return response

    def _find(self, method: str, path: str) -> Page:
        page = self._pages.get(method)
        if page is not None:
            return page
        if not self._pages:
            advice = ": this port serves the admin pages; the API is on the server's other port" if path.startswith("/v1/") else ""
            raise HttpError(HTTPStatus.NOT_FOUND, "not_found", f"there is no page at {path!r}{advice}")
        allowed = ", ".join(sorted(self._pages))
        sentence = f"{method} is not allowed here, only {allowed}"
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", sentence, [(b"allow", allowed.encode())])

    async def _form(self, page: Page, receive: asgi.Receive) -> dict[str, list[str]]:
        """A large form takes seconds to parse, so that runs in a thread; visitors without a session may not send one."""
        service = self._context.service
        limit = min(_MOST_OF_STRANGERS, service.limits.max_body_bytes) if page.is_open else service.limits.max_body_bytes
        body = await read_body(receive, limit, service.stopwatch)
        return _fields(body, "form") if len(body) <= _MOST_OF_STRANGERS else await asyncio.to_thread(_fields, body, "form")

    def _refuse(self, error: Exception, visitor: Visitor | None, scope: asgi.Scope) -> Response:
        """An HTML page if the client accepts one, else the JSON of the API."""
        status, body, headers = to_answer(error)
        accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        if visitor is None or b"text/html" not in accepts:
            response = Response(body, status, media_type="application/json")
        else:
            problem = msgspec.json.decode(body, type=Problem)
            request = _to_request(self._context, visitor, scope, {}, lenient=True)
            response = request.show("problem.html", status=status, problem=problem, status_code=int(status))
            if request.is_fragment and scope["method"] in SAFE and status < HTTPStatus.INTERNAL_SERVER_ERROR:
                response.headers["HX-Refresh"] = "true"  # what the open page shows is gone: a reload shows the error
        for name, value in headers:
            if name != b"www-authenticate":  # a browser would open its own password dialog
                response.headers[name.decode()] = value.decode()
        return response


def _to_request(
    context: AdminContext, visitor: Visitor, scope: asgi.Scope, form: dict[str, list[str]], *, lenient: bool = False
) -> AdminRequest:
    client = scope.get("client")
    return AdminRequest(
        context,
        visitor,
        path=scope.get("path_params", {}),
        url=quote(scope["path"]),
        query={} if lenient else _fields(scope["query_string"], "query"),
        form=form,
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        address=client[0] if client else "",
        is_secure=scope["scheme"] == "https",
    )


def _fields(data: bytes, what: str) -> dict[str, list[str]]:
    try:
        return parse_qs(data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidArgument(f"the {what} cannot be read: {error}") from None


def _to_login(scope: asgi.Scope) -> Response:
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    said: dict[bytes, Any] = dict(headers)
    if scope["method"] not in SAFE or b"text/html" not in said.get(b"accept", b""):
        raise Unauthorized("log in first: the page /login takes a key with the scope admin")
    query = scope["query_string"].decode("latin-1")
    url = "/login?next=" + quote(scope["path"] + (f"?{query}" if query else ""), safe="")
    if said.get(b"hx-request") == b"true":
        return Response(status_code=204, headers={"HX-Redirect": url})
    return RedirectResponse(url, 303)
