"""OpenAPI: the routes and their types, described for programs. It is generated, so it cannot be out of date."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Struct

import rowq
from rowq.engine.maintenance import TASKS
from rowq.server.api import descriptions, examples
from rowq.server.api.route import EVENTS, JSON, LINES, Route
from rowq.wire import MessageBody, Problem, SendBody

_REF = "#/components/schemas/{name}"
_NAME = "^[A-Za-z0-9._-]{1,64}$"
_PATHS = {
    "queue": {"type": "string", "pattern": _NAME},
    "id": {"type": "string", "minLength": 1},
    "name": {"type": "string", "pattern": _NAME},
    "stream": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,100}$"},
    "consumer_id": {"type": "string", "minLength": 1},
    "sweep": {"type": "string", "enum": [task.name for task in TASKS]},
}
_REQUEST_KEY = "^[!-~](?:[ -~]{0,253}[!-~])?$"
_SCOPES = {"send": "`send`", "receive": "`receive`", "look": "`receive`", "metrics": "`metrics`"}
_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After"}
_SHORT_LIVED = "From POST /v1/tokens; valid for a minute, and for GET only."
_SECURITY = {
    "ApiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "Bearer": {"type": "http", "scheme": "bearer"},
    "Basic": {"type": "http", "scheme": "basic", "description": "The key's name, and its secret as the password."},
    "Token": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "From POST /v1/tokens; valid for a minute, and for GET only.",
    },
}

Json = dict[str, Any]


def describe(routes: Sequence[Route], *, with_keys: bool) -> Json:
    """The document. Without keys it has no security schemes and no errors about keys."""
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, with_keys)
    used = {status for route in routes for status in _statuses(route, with_keys)}
    components: Json = {"schemas": _schemas(routes), "responses": dict(_refusal(status) for status in sorted(used))}
    if with_keys:
        components["securitySchemes"] = _SECURITY
    about = {"title": "rowq", "version": rowq.__version__, "description": descriptions.ABOUT}
    return {
        "openapi": "3.1.0",
        "info": {**about, "license": {"name": "MIT", "identifier": "MIT"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in descriptions.TAGS.items()],
        "paths": paths,
        "components": components,
    }


def _operation(route: Route, with_keys: bool) -> Json:
    refusals = {
        str(status): {"$ref": f"#/components/responses/{descriptions.REFUSALS[status][0]}"} for status in _statuses(route, with_keys)
    }
    operation: Json = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.summary,
        "description": " ".join(filter(None, (route.note, _needs(route) if with_keys else ""))),
        "parameters": list(_parameters(route)),
        "responses": {str(route.status): _answer(route), **refusals},
    }
    if route.body is not None:
        shown = {name: {"value": value} for name, value in examples.BODIES[route.operation].items()}
        operation["requestBody"] = {
            "required": route.body is SendBody or any(field.required for field in msgspec.structs.fields(route.body)),
            "content": {JSON: {"schema": _ref(route.body), "examples": shown}},
        }
    if with_keys:
        ways = ["ApiKey", "Bearer", "Basic", *(["Token"] if route.media == EVENTS else [])]
        operation["security"] = [] if route.right is None else [{way: []} for way in ways]
    return {name: value for name, value in operation.items() if value or name == "security"}


def _needs(route: Route) -> str:
    match route.right:
        case None:
            return "Needs no key."
        case "any":
            return "Needs a key with any scope."
        case "admin":
            scope = "the scope `admin`"
        case right:
            scope = f"the scope {_SCOPES[right]} or `admin`"
    if "{queue}" in route.path:
        return f"Needs a key with {scope} that is for this queue."
    return f"Needs a key with {scope}{', for all queues' if route.of_the_whole else ''}."


def _parameters(route: Route) -> Iterator[Json]:
    texts = descriptions.PARAMETERS
    for name, schema in _PATHS.items():
        if f"{{{name}}}" in route.path:
            needed = {"name": name, "in": "path", "required": True, "description": texts[name]}
            yield {**needed, "schema": schema, "example": examples.PATHS[name]}
    if route.body is SendBody:
        name = "Idempotency-Key"
        yield {"name": name, "in": "header", "description": texts[name], "schema": {"type": "string", "pattern": _REQUEST_KEY}}
    if route.query is None:
        return
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    schema = components[route.query.__name__]
    shown = examples.QUERIES.get(route.operation, {})
    for name, given in schema["properties"].items():
        parameter: Json = {"name": name, "in": "query", "required": name in schema["required"], "schema": _without_null(given)}
        parameter["description"] = texts.get(f"{route.operation}.{name}") or texts[name]
        if name in shown:
            kind = parameter["schema"].get("type")
            parameter["example"] = [shown[name]] if kind == "array" else int(shown[name]) if kind == "integer" else shown[name]
        yield parameter


def _without_null(schema: Json) -> Json:
    """A query has no null: a parameter is omitted instead."""
    kept = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    return kept | (choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {})


def _answer(route: Route) -> Json:
    description = HTTPStatus(route.status).phrase
    if route.status == HTTPStatus.NO_CONTENT:
        return {"description": description}
    media: Json = {"schema": {"type": "string"}}
    if route.media == JSON:
        media = {"schema": _answer_schema(route.answer)}
        if route.operation in examples.ANSWERS:
            media["example"] = examples.ANSWERS[route.operation]
    elif route.media == LINES:
        description = "One JSON value per line."
        media["x-line"] = _ref(route.answer)
    elif route.events is not None:
        description = "Server-sent events: " + ", ".join(f"`{name}`" for name in route.events) + "."
        media["example"] = examples.EVENTS[route.operation]
        media["x-events"] = {name: {"type": "object"} if data is None else _ref(data) for name, data in route.events.items()}
    return {"description": description, "content": {route.media: media}}


def _answer_schema(answer: Any) -> Json:
    kinds = [kind for kind in get_args(answer) or (answer,) if isinstance(kind, type) and issubclass(kind, Struct)]
    if not kinds:
        return {"type": "object"}
    return _ref(kinds[0]) if len(kinds) == 1 else {"oneOf": [_ref(kind) for kind in kinds]}


def _statuses(route: Route, with_keys: bool) -> list[int]:
    """The error statuses that follow from a route's path, body and right."""
    found = {400, 503, *route.refusals}
    if "{" in route.path:
        found.add(404)
    if route.body is not None:
        found |= {408, 413}
    if route.method != "GET" and route.right != "any":
        found.add(500)
    if route.right is not None:
        found |= {401, 403, 429} if with_keys else {403}
    return sorted(found)


def _refusal(status: int) -> tuple[str, Json]:
    name, text, codes = descriptions.REFUSALS[status]
    refusal: Json = {
        "description": f"{text} Codes: {', '.join(f'`{code}`' for code in codes)}.",
        "content": {JSON: {"schema": _ref(Problem), "example": {"code": codes[0], "error": text}}},
    }
    if status in _HEADERS:
        refusal["headers"] = {_HEADERS[status]: {"required": True, "schema": {"type": "string"}}}
    return name, refusal


def _schemas(routes: Sequence[Route]) -> Json:
    taken = _structs(route.body for route in routes)
    given = _structs(kind for route in routes for kind in (route.answer, *(route.events or {}).values()))
    every: dict[str, type[Struct]] = {**taken, **given, "Problem": Problem}
    _, schemas = msgspec.json.schema_components(every.values(), ref_template=_REF)
    for name, schema in schemas.items():
        text = schema.get("description") or descriptions.SCHEMAS.get(name, "")
        schema["description"] = inspect.cleandoc(text)
        for field, value in schema.get("properties", {}).items():
            value["description"] = descriptions.FIELDS.get(f"{name}.{field}") or descriptions.FIELDS[field]
        if name in every and name not in taken:
            _require_all(schema, every[name])
    _say_what_types_cannot(schemas)
    _leave_out_false_items(schemas)
    return schemas


def _require_all(schema: Json, kind: type[Struct]) -> None:
    """Answers contain every field, default or not, so readers may rely on them."""
    if kind.__struct_config__.omit_defaults:
        return
    schema["required"] = [field.encode_name for field in msgspec.structs.fields(kind) if field.default is not UNSET]
    for value in schema["properties"].values():
        value.pop("default", None)


def _say_what_types_cannot(schemas: Json) -> None:
    """With `if` instead of `oneOf`: client generators turn `oneOf` into a union in place of the fields."""
    message, send = schemas["MessageBody"], schemas["SendBody"]
    message["if"] = {"required": ["payload"]}
    message["then"] = {"not": {"required": ["payload_base64"]}}
    message["else"] = {"required": ["payload_base64"]}
    schemas["MessagesBody"] = {
        "title": "MessagesBody",
        "description": descriptions.SCHEMAS["MessagesBody"],
        "type": "object",
        "properties": {"messages": send["properties"]["messages"]},
        "required": ["messages"],
        "additionalProperties": False,
    }
    several = {"$ref": _REF.format(name="MessagesBody")}
    schemas["SendBody"] = {"title": send["title"], "description": send["description"], "oneOf": [_ref(MessageBody), several]}


def _leave_out_false_items(node: Any) -> None:
    """`items: false` after `prefixItems` repeats `maxItems`, and client generators reject it."""
    if isinstance(node, dict):
        if node.get("items") is False:
            del node["items"]
        for value in node.values():
            _leave_out_false_items(value)
    elif isinstance(node, list):
        for value in node:
            _leave_out_false_items(value)


def _structs(kinds: Iterable[Any]) -> dict[str, type[Struct]]:
    """The Structs among these types, and those within them, by name."""
    found: dict[str, type[Struct]] = {}
    ahead = list(kinds)
    while ahead:
        kind = ahead.pop()
        ahead += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind.__name__ not in found:
            found[kind.__name__] = kind
            ahead += get_type_hints(kind).values()
    return found


def _ref(kind: Any) -> Json:
    return {"$ref": _REF.format(name=kind.__name__)}
