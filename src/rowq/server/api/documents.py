"""The description of the API: for programs at /openapi.json, for people at /docs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
from starlette.responses import Response

from rowq.server.api import docs_page
from rowq.server.api.openapi import describe
from rowq.server.api.route import ApiRequest, Route
from rowq.server.auth.loopback import is_local_host


class Documents:
    """Rendered once on first request, for a server with keys and for one without; closed paths are left out."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._describe = cache(
            lambda with_keys, closed: describe([route for route in routes() if route.path not in closed], with_keys=with_keys)
        )
        self._json = cache(lambda *kind: msgspec.json.encode(self._describe(*kind)))
        self._page = cache(lambda *kind: docs_page.render(self._describe(*kind)))

    async def openapi(self, asked: ApiRequest[None, None]) -> Response:
        return Response(self._json(*_kind(asked)), media_type="application/json", headers={"cache-control": "no-store"})

    async def docs(self, asked: ApiRequest[None, None]) -> Response:
        page = self._page(*_kind(asked))
        host = next((value for name, value in asked.headers if name == b"host"), b"")
        if is_local_host(host):  # its port is right, and the scheme is http; for other hosts the scheme is unknown
            page = page.replace(docs_page.ADDRESS, b"http://" + host)
        return Response(page, media_type="text/html", headers=docs_page.HEADERS)


def _kind(asked: ApiRequest[None, None]) -> tuple[bool, tuple[str, ...]]:
    return not asked.service.authenticator.is_open, asked.service.closed
