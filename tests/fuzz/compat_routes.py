"""The routes of the compatible APIs in words that schemathesis understands: made of their own tables and types, so none is forgotten."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rowq.server.compat.api import CompatApi, CompatRoute
from rowq.server.compat.forq import api as forq
from rowq.server.compat.keyval import api as keyval
from rowq.server.compat.keyval import format
from rowq.server.compat.queueti import api as queueti
from rowq.server.compat.queueti import listing

COMPAT: tuple[CompatApi, ...] = (
    forq.CompatApi(forq.Options(poll=0)),
    keyval.CompatApi(keyval.Options(queue="keyval")),
    queueti.CompatApi(queueti.Options()),
)

BODIES: dict[str, Any] = {
    "forq_produce": forq._NewMessage,
    "keyval_enqueue": format.NewMessage,
    "keyval_ack": format.Settlement,
    "keyval_nack": format.Settlement,
    "queueti_enqueue": queueti._Enqueue,
    "queueti_dequeue": queueti._Dequeue,
    "queueti_ack": queueti._Settle,
    "queueti_nack": queueti._Settle,
    "queueti_replace_config": queueti._Config,
}
QUERIES: dict[str, Any] = {"keyval_list_dead": format.Page, "queueti_list": listing.PageQuery}
ENDLESS = ("keyval_listen",)
"""Event streams, which have no end to wait for."""

_PLACE = re.compile(r"{(\w+)}")
_ANSWERS = (200, 201, 204)
_REFUSALS = (400, 403, 404, 405, 408, 409, 413, 422, 429)


def operation(api: CompatApi, way: CompatRoute) -> str:
    return f"{api.name}{getattr(way.handler, '__name__', '')}"


def describe() -> dict[str, Any]:
    """OpenAPI 3.1 of all compatible APIs."""
    types = [*BODIES.values(), *QUERIES.values()]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    known = dict(zip([*BODIES, *QUERIES], schemas, strict=True))
    paths: dict[str, Any] = {}
    for api in COMPAT:
        for way in api.ways():
            name = operation(api, way)
            if name not in ENDLESS:
                paths.setdefault(way.path, {})[way.method.lower()] = _operation(name, way.path, known.get(name), components)
    return {"openapi": "3.1.0", "info": {"title": "compatible APIs", "version": "1"}, "paths": paths, "components": {"schemas": components}}


def _operation(name: str, path: str, schema: Any, components: dict[str, Any]) -> dict[str, Any]:
    parameters = [{"name": place, "in": "path", "required": True, "schema": {"type": "string"}} for place in _PLACE.findall(path)]
    found: dict[str, Any] = {"operationId": name, "responses": _responses()}
    if name in QUERIES:
        fields = components[schema["$ref"].rpartition("/")[2]]["properties"]
        parameters += [{"name": field, "in": "query", "schema": said} for field, said in fields.items()]
    elif name in BODIES:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found | {"parameters": parameters}


def _responses() -> dict[str, Any]:
    problem = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string", "minLength": 1}}}
    refusal = {"description": "refused", "content": {"application/json": {"schema": problem}}}
    return {str(status): {"description": "done"} for status in _ANSWERS} | {str(status): refusal for status in _REFUSALS}
