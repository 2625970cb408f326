"""The static files of the pages: a stylesheet, a script, htmx, an icon. Their URLs change with their content."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.responses import Response

from rowq.server.http import asgi

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_NAMES = ("admin.css", "admin.js", "htmx.min.js", "rowq.svg")
_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


class _File(NamedTuple):
    content: bytes
    kind: str
    version: str


class Static:
    """An ASGI application; it needs no login."""

    def __init__(self) -> None:
        folder = files("rowq.server.admin") / "static"
        self._files = {name: _read((folder / name).read_bytes(), name) for name in _NAMES}

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._files[name].version}"

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        file = self._files.get(scope["path_params"]["name"])
        if file is None or scope["method"] not in ("GET", "HEAD"):
            await Response(status_code=404, headers={"cache-control": "no-store"})(scope, receive, send)
            return
        await Response(file.content, media_type=file.kind, headers=_HEADERS)(scope, receive, send)


def _read(content: bytes, name: str) -> _File:
    return _File(content, _KINDS[name.rpartition(".")[2]], sha256(content).hexdigest()[:12])
