"""A request to an admin page: the visitor, the fields, and the ways to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

import msgspec
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rowq.engine.bulk import Progress
from rowq.errors import InvalidArgument, QueueNotFound, Unauthorized
from rowq.model.queue import DEAD_SUFFIXES, split_name
from rowq.server.admin.context import AdminContext
from rowq.server.admin.session import Visitor
from rowq.server.api.endpoint import check_rights
from rowq.server.api.route import ApiRequest, NoQuery, Route
from rowq.server.api.routes import ROUTES
from rowq.server.auth.authentication import Identity
from rowq.server.service import Service
from rowq.store.call import Send
from rowq.wire import MessageBody, to_prepared

T = TypeVar("T")

_ROUTE_OF: dict[Any, Route] = {route.handler: route for route in ROUTES if route.handler is not None}
PAGE = 100
"""Rows of a long table on one page."""
_NOTICE = "RowqNotice"
_NOTICE_SECONDS = 30


class AdminRequest(msgspec.Struct, eq=False):
    """`query` and `form` have every value of a name, in order."""

    context: AdminContext
    visitor: Visitor
    path: Mapping[str, str]
    url: str
    """The requested path, without its query."""
    query: Mapping[str, list[str]]
    form: Mapping[str, list[str]]
    headers: Mapping[str, str]
    address: str
    is_secure: bool

    @property
    def service(self) -> Service:
        return self.context.service

    @property
    def identity(self) -> Identity:
        if self.visitor.identity is None:
            raise Unauthorized("log in first")  # the site has already redirected visitors without a session
        return self.visitor.identity

    @property
    def is_fragment(self) -> bool:
        """htmx asks for the inside of the page, except when it goes back in the browser's history."""
        return self.headers.get("hx-request") == "true" and "hx-history-restore-request" not in self.headers

    @property
    def layout(self) -> str:
        """What every template extends."""
        return "fragment.html" if self.is_fragment else "page.html"

    def is_at(self, url: str) -> bool:
        """Whether a menu link leads to the current page."""
        if "queue" in self.path:
            return url == ("/dead" if self.path["queue"].endswith(DEAD_SUFFIXES) else "/")
        return self.url == url or (url != "/" and self.url.startswith(url + "/"))

    def asked(self, name: str, default: str = "") -> str:
        """The value of a query parameter; of several, the last."""
        return self.query.get(name, [default])[-1]

    def given(self, name: str, default: str = "") -> str:
        """The value of a form field; of several, the last."""
        return self.form.get(name, [default])[-1]

    def link(self, **changes: Any) -> str:
        """This page with changed query parameters; None removes one."""
        kept = {name: values for name, values in self.query.items() if name not in changes}
        said = {name: value for name, value in changes.items() if value is not None and value != ""}
        query = urlencode({**kept, **said}, doseq=True)
        return f"{self.url}?{query}" if query else self.url

    async def call(
        self, handler: Callable[..., Any], *, query: Any = None, body: Any = None, progress: Progress | None = None, **path: str
    ) -> Any:
        """Calls a handler of the API after the same checks as a request to it. `progress`: for handlers that report it."""
        route = _ROUTE_OF[handler]
        check_rights(route, self.identity, path)
        asked = ApiRequest(self.service, self.identity, path, [], _checked(query or (route.query or NoQuery)()), _checked(body))
        try:
            found = await (handler(asked) if progress is None else handler(asked, progress))
        except QueueNotFound as error:
            raise error.among(self.identity.reaches) from None  # a key for some queues learns no other names
        if route.method != "GET" and "queue" in path:
            self.context.depths.stale(split_name(path["queue"])[0])
        return found

    async def send(self, queue: str, body: MessageBody) -> str:
        """Returns the message's id. Send is a hot route, which has no handler to call."""
        self.identity.check("send", queue)
        call = Send(queue, [to_prepared(queue, body)], actor=self.identity.actor)
        sent: list[str] = await self.service.engine.driver.perform(call)
        self.context.depths.stale(queue)
        return sent[0]

    def show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """The page; for a fragment, only its inside."""
        notice = self._notice()
        values.setdefault("now", self.service.engine.clock.now())
        html = self.context.templates.render(template, request=self, notice=notice, **values)
        response = HTMLResponse(html, status)
        response.headers["vary"] = "HX-Request"
        if notice:
            response.delete_cookie(_NOTICE)
        return response

    def go(self, url: str, notice: str = "") -> Response:
        """Redirects to another page, which shows the notice once. htmx follows, and asks for the fragment."""
        response = RedirectResponse(url, 303)
        if notice:
            response.set_cookie(_NOTICE, quote(notice[:1_000]), max_age=_NOTICE_SECONDS, httponly=True, samesite="strict")
        return response

    def _notice(self) -> str:
        if self.headers.get("hx-request-type") == "full":  # a part that refreshes itself (hx-select) would drop it
            return ""
        for part in self.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == _NOTICE:
                return unquote(value)
        return ""


def details_url(queue: str, id: str) -> str:
    """The page of a message."""
    return f"/queue/{queue}/messages/{id}/details"


def _checked(value: T) -> T:
    """Validates values that a page has built, as the API validates a request."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"this is not possible: {error}") from None


def one_of(value: str, choices: tuple[str, ...], what: str) -> str:
    """Checks a value of a form or a link against its choices."""
    if value not in choices:
        raise InvalidArgument(f"{value!r} is not a {what}; choose one of: {', '.join(choices)}")
    return value


def paged(request: AdminRequest, rows: Sequence[Any]) -> dict[str, Any]:
    """The rows to show, and what the links to other pages need. An invalid page number means the first page."""
    asked = request.asked("page")
    pages = max(1, -(-len(rows) // PAGE))
    page = min(max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1, pages)
    return {"rows": rows[(page - 1) * PAGE : page * PAGE], "count": len(rows), "page": page, "pages": pages}
