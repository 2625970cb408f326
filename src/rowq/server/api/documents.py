"""The description of the API: for programs at /openapi.json, for people at /docs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
from starlette.responses import Response

from rowq.server import docs_page
from rowq.server.asked import Asked
from rowq.server.openapi import describe
from rowq.server.route import Route


class Documents:
    """Made once for a server with keys and once for one without, when somebody first asks."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._describe = cache(lambda with_keys: describe(routes(), with_keys=with_keys))
        self._json = cache(lambda with_keys: msgspec.json.encode(self._describe(with_keys)))
        self._page = cache(lambda with_keys: docs_page.render(self._describe(with_keys)))

    async def openapi(self, asked: Asked[None, None]) -> Response:
        return Response(self._json(not asked.service.gate.is_open), media_type="application/json", headers={"cache-control": "no-store"})

    async def docs(self, asked: Asked[None, None]) -> Response:
        return Response(self._page(not asked.service.gate.is_open), media_type="text/html", headers=docs_page.HEADERS)
