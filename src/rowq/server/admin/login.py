"""In and out: a key that has the scope admin opens a session."""

from __future__ import annotations

from starlette.responses import Response

from rowq.errors import Forbidden, Unauthorized
from rowq.server.admin.request import Desk

_LONGEST = 1_000


async def show_login(desk: Desk) -> Response:
    if desk.visitor.identity is not None:
        return desk.go(_next(desk.asked("next")))
    return desk.show("login.html", next=_next(desk.asked("next")), problem=None)


async def log_in(desk: Desk) -> Response:
    """Wrong keys are counted by address, together with those that the API is asked with."""
    url = _next(desk.given("next"))
    if desk.visitor.identity is not None:
        return desk.go(url)
    try:
        visitor = await desk.office.sessions.log_in(desk.visitor, desk.given("key").strip()[:_LONGEST], desk.address)
    except (Unauthorized, Forbidden) as error:
        return desk.show("login.html", status=401 if isinstance(error, Unauthorized) else 403, next=url, problem=str(error))
    response = desk.go(url)
    visitor.give_cookie(response)
    return response


async def log_out(desk: Desk) -> Response:
    visitor = await desk.office.sessions.log_out(desk.visitor)
    response = desk.go("/login")
    visitor.give_cookie(response)
    return response


def _next(url: str) -> str:
    """Only a page of ours: `//elsewhere` and `/\\elsewhere` are other sites to a browser."""
    is_ours = url.startswith("/") and not url.startswith(("//", "/\\")) and url.isprintable()
    return url if is_ours else "/"
