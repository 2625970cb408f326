"""Logging in and out: a key with the scope admin opens a session."""

from __future__ import annotations

from starlette.responses import Response

from rowq.errors import Forbidden, Unauthorized
from rowq.server.admin.request import AdminRequest

_LONGEST = 1_000


async def show_login(request: AdminRequest) -> Response:
    if request.visitor.identity is not None:
        return request.go(_next(request.asked("next")))
    return request.show("login.html", next=_next(request.asked("next")), problem=None)


async def log_in(request: AdminRequest) -> Response:
    """Wrong keys are counted by address, together with those sent to the API."""
    url = _next(request.given("next"))
    if request.visitor.identity is not None:
        return request.go(url)
    try:
        visitor = await request.context.sessions.log_in(request.visitor, request.given("key").strip()[:_LONGEST], request.address)
    except (Unauthorized, Forbidden) as error:
        return request.show("login.html", status=401 if isinstance(error, Unauthorized) else 403, next=url, problem=str(error))
    response = request.go(url)
    visitor.give_cookie(response)
    return response


async def log_out(request: AdminRequest) -> Response:
    visitor = await request.context.sessions.log_out(request.visitor)
    response = request.go("/login")
    visitor.give_cookie(response)
    return response


def _next(url: str) -> str:
    """Only paths on this site: browsers take `//elsewhere` and `/\\elsewhere` for other sites."""
    is_ours = url.startswith("/") and not url.startswith(("//", "/\\")) and url.isprintable()
    return url if is_ours else "/"
