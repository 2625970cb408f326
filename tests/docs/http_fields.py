"""The fields of requests and answers as docs/reference/http.md lists them, made from the description that the server gives of itself.

`python -m tests.docs.http_fields` prints both tables, to be put there after a change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from rowq.server.api.route import Route
from rowq.server.api.routes import ROUTES
from tests.server.promises import DOCUMENT, resolved

REQUESTS = ("field of a request", "of", "value", "meaning")
ANSWERS = ("answer of", "fields")
_SETTINGS = "SettingsBody"
_NAMES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "array": "list",
    "object": "object",
}
_BEYOND_LIMITS = 1 << 31

Json = dict[str, Any]


def requests() -> list[list[str]]:
    """A row for each field that means one thing, with all requests that take it."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for route in ROUTES:
        for name, schema, is_required in _taken(_operation(route)):
            value = "; ".join(filter(None, (_value(schema), "must be there" if is_required else _default(schema))))
            rows.setdefault((f"`{name}`", value, schema["description"]), []).append(_short(route))
    return [[name, ", ".join(routes), value, meaning] for (name, value, meaning), routes in rows.items()]


def answers() -> list[list[str]]:
    """A row for each body, with all requests that are answered so. Fields of what is inside stand in brackets."""
    rows: dict[str, list[str]] = {}
    for route in ROUTES:
        media: Json = _operation(route)["responses"][str(route.status)].get("content", {}).get("application/json", {})
        for schema in media.get("schema", {}).get("oneOf", [media.get("schema", {})]):
            if "$ref" in schema:
                rows.setdefault(_inside(schema), []).append(_short(route))
    return [[", ".join(routes), fields] for fields, routes in rows.items()]


def _operation(route: Route) -> Json:
    found: Json = DOCUMENT["paths"][route.path][route.method.lower()]
    return found


def _taken(operation: Json) -> Iterator[tuple[str, Json, bool]]:
    """(name, schema, whether it must be there). Settings have a page of their own."""
    for each in operation.get("parameters", []):
        if each["in"] != "path":
            yield each["name"], {**each["schema"], "description": each["description"]}, each.get("required", False)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if not body.get("$ref", "").endswith(_SETTINGS):
        whole = resolved(body)
        for part in (resolved(each) for each in whole.get("oneOf", [whole])):
            yield from ((name, schema, name in part.get("required", ())) for name, schema in part.get("properties", {}).items())


def _value(schema: Json) -> str:
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    if len(kinds) > 1 or not kinds[0].keys() - {"description", "default"}:
        return "list or object" if len(kinds) > 1 else "any JSON"
    (kind,) = kinds
    least, most = kind.get("minimum"), kind.get("maximum", kind.get("maxLength", kind.get("maxItems")))
    if choice := kind.get("enum", kind.get("items") and kind["items"].get("enum")):
        return ("some of " if "items" in kind else "") + ", ".join(f"`{each}`" for each in choice)
    if most is None or most >= _BEYOND_LIMITS:
        return _NAMES[kind["type"]]
    return f"{least or 0:,} to {most:,}" if kind["type"] in ("integer", "number") else f"{_NAMES[kind['type']]}, up to {most:,}"


def _default(schema: Json) -> str:
    default = schema.get("default")
    return "" if default in (None, []) else f"default `{default if isinstance(default, str) else msgspec.json.encode(default).decode()}`"


def _inside(schema: Json) -> str:
    if schema["$ref"].endswith(_SETTINGS):
        return "[settings](settings.md)"
    return " ".join(f"`{name}`{_nested(each)}" for name, each in resolved(schema).get("properties", {}).items())


def _nested(schema: Json) -> str:
    inner = schema.get("items", schema)
    fields = _inside(inner) if "$ref" in inner else ""
    return f" ({fields})" if fields else ""


def _short(route: Route) -> str:
    return f"`{route.method} {route.path.replace('/v1/queues/{queue}', '…')}`"


def main() -> None:
    for head, rows in ((REQUESTS, requests()), (ANSWERS, answers())):
        for row in (head, *rows):
            sys.stdout.write(f"| {' | '.join(row)} |\n" + "|---" * len(head) * (row is head) + "|\n" * (row is head))
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
