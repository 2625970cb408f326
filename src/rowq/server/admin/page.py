"""A page: a method and a path of the site, and who answers there. The table of all of them is pages.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.responses import Response

from rowq.server.admin.request import AdminRequest
from rowq.server.http import asgi

Handler = Callable[[AdminRequest], Awaitable[Response]]
Streamer = Callable[["AdminRequest", asgi.Receive, asgi.Send], Awaitable[None]]


class Page(Struct, frozen=True):
    """`is_open`: it is for those who are not logged in, too."""

    method: str
    path: str
    handler: Handler | Streamer
    is_open: bool = False
    menu: str = ""
    """What the menu calls it, if it stands there."""
    of_the_whole: bool = False
    """It is about all queues: whoever sees only some is told so, and does not find it in the menu."""
    streams: bool = False
    """An event stream: the handler is given ASGI's receive and send as well, and answers by itself."""
