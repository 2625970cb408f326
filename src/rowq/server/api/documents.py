"""The description of the API: for programs at /openapi.json, for people at /docs, in one page without scripts or external files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup, escape
from starlette.responses import Response

from rowq.server.api.openapi import describe
from rowq.server.api.route import EVENTS, JSON, ApiRequest, Route
from rowq.server.auth.loopback import is_local_host

Json = dict[str, Any]

_STYLE = (files("rowq.server") / "static" / "docs.css").read_text(encoding="utf-8")
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = ("default-src 'none'", f"style-src 'sha256-{_HASH}'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
_HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_ADDRESS = "http://localhost:8080"
"""The server's address on the page, until it is replaced."""
_CODE = re.compile(r"`([^`]+)`")
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "default": "default"}


class Documents:
    """Rendered once on first request, for a server with keys and for one without; closed paths are left out."""

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._describe = cache(
            lambda with_keys, closed: describe([route for route in routes() if route.path not in closed], with_keys=with_keys)
        )
        self._json = cache(lambda *kind: msgspec.json.encode(self._describe(*kind)))
        self._page = cache(lambda *kind: render(self._describe(*kind)))

    async def openapi(self, asked: ApiRequest[None, None]) -> Response:
        return Response(self._json(*_kind(asked)), media_type="application/json", headers={"cache-control": "no-store"})

    async def docs(self, asked: ApiRequest[None, None]) -> Response:
        page = self._page(*_kind(asked))
        host = next((value for name, value in asked.headers if name == b"host"), b"")
        if is_local_host(host):  # its port is right, and the scheme is http; for other hosts the scheme is unknown
            page = page.replace(_ADDRESS.encode(), b"http://" + host)
        return Response(page, media_type="text/html", headers=_HEADERS)


def _kind(asked: ApiRequest[None, None]) -> tuple[bool, tuple[str, ...]]:
    return not asked.service.authenticator.is_open, asked.service.closed


def render(document: Json) -> bytes:
    """The page of a description."""
    operations: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operations.setdefault(operation["tags"][0], []).append((method, path, operation))
    with_keys = "securitySchemes" in document["components"]
    post = partial(_command, "post", with_key=with_keys, query=None)
    # A description leaves out what is empty, so the template may ask for fields that are not there.
    environment = Environment(
        loader=PackageLoader("rowq.server"), autoescape=True, undefined=ChainableUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"text": _text, "type": _type, "named": _named, "indented": partial(json.dumps, indent=2, ensure_ascii=False)}
    environment.globals |= {"JSON": JSON, "style": _STYLE, "address": _ADDRESS, "command": _command, "example": _example}
    page = environment.get_template("docs.html").render(document, operations=operations, with_keys=with_keys, post=post)
    return page.encode() + b"\n"


def _example(method: str, path: str, operation: Json) -> str:
    given = {parameter["name"]: parameter for parameter in operation.get("parameters", []) if "example" in parameter}
    query = {name: each["example"] for name, each in given.items() if each["in"] == "query"}
    for name, each in given.items():
        path = path.replace(f"{{{name}}}", str(each["example"]))
    body = None
    if "requestBody" in operation:
        body = next(iter(operation["requestBody"]["content"][JSON]["examples"].values()))["value"]
    streams = EVENTS in operation["responses"].get("200", {}).get("content", {})
    return _command(method, path, body, query, with_key=bool(operation.get("security")), streams=streams)


def _command(
    method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None, *, with_key: bool, streams: bool = False
) -> str:
    """For a shell with the variables ROWQ, the server's address, and ROWQ_API_KEY."""
    parts = ["curl"]
    if streams:
        parts.append("-N")
    if method != ("get" if body is None else "post"):
        parts.append(f"-X {method.upper()}")
    parts.append(f'"$ROWQ{path}?{urlencode(query, doseq=True)}"' if query else f'"$ROWQ{path}"')
    if with_key:
        parts.append('-H "X-API-Key: $ROWQ_API_KEY"')
    if body is not None:
        parts.append("-H 'Content-Type: application/json' \\\n  -d " + shlex.quote(json.dumps(body, ensure_ascii=False)))
    return " ".join(parts)


def _text(text: str) -> Markup:
    """Words between backticks become code."""
    parts = _CODE.split(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _named(reference: Json) -> str:
    return str(reference["$ref"].rpartition("/")[2])


def _type(schema: Json) -> Markup:
    """A schema in a few words; named schemas are linked."""
    if "$ref" in schema:
        return Markup('<a href="#schema-{0}">{0}</a>').format(_named(schema))
    for several in ("anyOf", "oneOf"):
        if several in schema and "properties" not in schema:
            return Markup(" or ").join(map(_type, schema[several]))
    if "enum" in schema:
        return Markup(" or ").join(Markup("<code>{}</code>").format(json.dumps(value)) for value in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return Markup("list of ") + _type(schema.get("prefixItems", [schema.get("items", {})])[0])
    if kind == "object" and "properties" in schema:
        fields = (Markup("<code>{}</code>: {}").format(name, _type(value)) for name, value in schema["properties"].items())
        return Markup("{{{}}}").format(Markup(", ").join(fields))
    told = [f"{word} {json.dumps(schema[name])}" for name, word in _BOUNDS.items() if schema.get(name) is not None]
    if "maxLength" in schema:
        told.append(f"{schema.get('minLength', 0)} to {schema['maxLength']} characters")
    return escape(kind) + (Markup(' <span class="quiet">({})</span>').format(", ".join(told)) if told else "")
