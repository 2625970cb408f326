"""What the description of the API promises of an answer: its status, its type, its shape."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs

from rowq.server.api.openapi import describe
from rowq.server.api.routes import ROUTES
from tests.server.support import Answer

DOCUMENT = describe(ROUTES, with_keys=True)
_PATHS = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for path in DOCUMENT["paths"]}


def check_promised(method: str, target: str, answer: Answer) -> None:
    """Only for paths that are described, and methods that they have."""
    path = target.partition("?")[0]
    found: dict[str, Any] = next((DOCUMENT["paths"][known] for known, pattern in _PATHS.items() if pattern.fullmatch(path)), {})
    if method.lower() not in found:
        assert answer.status in (404, 405), f"{method} {target} is not described, and answers {answer.status}"
        return
    promised = found[method.lower()]["responses"]
    assert str(answer.status) in promised, (
        f"{method} {target} answered {answer.status}, and {sorted(promised)} are promised: {answer.body!r}"
    )
    response = resolved(promised[str(answer.status)])
    for header, said in response.get("headers", {}).items():
        assert not said["required"] or header.lower() in answer.headers
    if "content" not in response:
        assert not answer.body
        return
    media = answer.headers["content-type"].partition(";")[0]
    assert media in response["content"]
    content = response["content"][media]
    if media == "application/json":
        check_schema(content["schema"], answer.json)
    elif "x-line" in content:
        for line in answer.body.splitlines():
            check_schema(content["x-line"], json.loads(line))


def check_schema(schema: dict[str, Any], value: Any) -> None:
    jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, value)


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    found: Any = DOCUMENT
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)
