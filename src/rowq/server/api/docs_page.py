"""The page at /docs: the description of /openapi.json for people, in one page without scripts or external files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from rowq.server.api.route import EVENTS, JSON

Json = dict[str, Any]

_STYLE = (files("rowq.server") / "static" / "docs.css").read_text(encoding="utf-8")
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = ("default-src 'none'", f"style-src 'sha256-{_HASH}'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
ADDRESS = b"http://localhost:8080"
"""The server's address on the page, until it is replaced."""

_CODE = re.compile(r"`([^`]+)`")


def render(document: Json) -> bytes:
    return "".join(_page(document)).encode()


def _page(document: Json) -> Iterator[str]:
    version = escape(document["info"]["version"])
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
    yield f"<title>rowq {version}: HTTP API</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield '<a class="skip" href="#content">Skip the contents</a>\n'
    yield f"<header>\n<h1>rowq <small>{version} · HTTP API</small></h1>\n"
    yield "".join(f"<p>{_text(part)}</p>\n" for part in document["info"]["description"].split("\n\n"))
    yield '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>\n</header>\n'
    yield from _contents(document)
    yield '<main id="content">\n'
    yield from _first_steps(document)
    for tag in document["tags"]:
        yield f'<section id="{_anchor(tag["name"])}">\n<h2>{escape(tag["name"])}</h2>\n<p>{_text(tag["description"])}</p>\n'
        for method, path, operation in _operations(document, tag["name"]):
            yield from _operation(method, path, operation)
        yield "</section>\n"
    yield from _refusals(document)
    yield from _schemas(document)
    yield "</main>\n</body>\n</html>\n"


def _operations(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag]:
                yield method.upper(), path, operation


def _contents(document: Json) -> Iterator[str]:
    yield '<nav aria-label="Contents">\n<ul>\n<li><a href="#first-steps">First steps</a></li>\n</ul>\n'
    for tag in document["tags"]:
        yield f"<b>{escape(tag['name'])}</b>\n<ul>\n"
        for method, path, operation in _operations(document, tag["name"]):
            yield f'<li><a href="#{operation["operationId"]}">{_method(method)} {escape(path)}</a></li>\n'
        yield "</ul>\n"
    yield '<ul>\n<li><a href="#refusals">Refusals</a></li>\n<li><a href="#schemas">Schemas</a></li>\n</ul>\n</nav>\n'


def _first_steps(document: Json) -> Iterator[str]:
    with_keys = "securitySchemes" in document["components"]
    yield '<section id="first-steps">\n<h2>First steps</h2>\n<p>Tell the shell where the server is'
    yield ", and your key:</p>\n" if with_keys else ":</p>\n"
    yield _shell(f"export {ROWQ}={ADDRESS.decode()}" + (f"\nexport {KEY}=rowq_…" if with_keys else ""))
    steps = (
        (
            "Send a message. A queue is created on first use.",
            "emails/messages",
            {"payload": {"to": "ada@example.com"}},
        ),
        ("Receive it. For the length of its lease, here a minute, no other consumer gets it.", "emails/deliveries", {"lease_ms": 60_000}),
    )
    for sentence, path, body in steps:
        yield f"<p>{sentence}</p>\n" + _shell(command("POST", f"/v1/queues/{path}", body=body, with_key=with_keys))
    yield "<p>The answer holds a <code>receipt</code>, the proof of your lease. Use it to acknowledge the message:</p>\n"
    yield _shell(command("POST", "/v1/ack", body={"receipts": ["RECEIPT"]}, with_key=with_keys))
    yield "<p>If it is never acked, it comes back when the lease ends. To report a failure at once, "
    yield '<a href="#nack">nack</a> it. After its last attempt, or when you reject it, it becomes a dead letter:</p>\n'
    yield _shell(command("POST", "/v1/reject", body={"receipts": ["RECEIPT"], "reason": "no such address"}, with_key=with_keys))
    yield "<p>List the dead letters of the queue, and redrive them:</p>\n"
    yield _shell(command("GET", "/v1/queues/emails/dead", with_key=with_keys))
    yield _shell(command("POST", "/v1/queues/emails/dead/redrive", body={}, with_key=with_keys))
    yield "</section>\n"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f'<article id="{operation["operationId"]}">\n<h3>{_method(method)} <code>{escape(path)}</code></h3>\n'
    yield f"<p><b>{_text(operation['summary'])}.</b> {_text(operation.get('description', ''))}</p>\n"
    if parameters := operation.get("parameters"):
        yield _table(("parameter", "in", "type", ""), [_parameter(parameter) for parameter in parameters])
    body = operation.get("requestBody")
    if body is not None:
        yield f"<p>Body{'' if body['required'] else ', which may be left out'}: {_type(body['content'][JSON]['schema'])}</p>\n"
    yield _shell(_example(method, path, operation))
    if body is not None:
        others = list(body["content"][JSON]["examples"].items())[1:]
        yield "".join(f"<details><summary>{escape(name)}</summary>{_json(example['value'])}</details>\n" for name, example in others)
    yield from _answers(operation)
    yield "</article>\n"


def _example(method: str, path: str, operation: Json) -> str:
    given = {parameter["name"]: parameter for parameter in operation.get("parameters", []) if "example" in parameter}
    query = {name: each["example"] for name, each in given.items() if each["in"] == "query"}
    for name, each in given.items():
        path = path.replace(f"{{{name}}}", str(each["example"]))
    body = None
    if "requestBody" in operation:
        body = next(iter(operation["requestBody"]["content"][JSON]["examples"].values()))["value"]
    streams = EVENTS in operation["responses"].get("200", {}).get("content", {})
    return command(method, path, query, body, with_key=bool(operation.get("security")), streams=streams)


def _answers(operation: Json) -> Iterator[str]:
    refusals = []
    for status, answer in operation["responses"].items():
        if "$ref" in answer:
            name = answer["$ref"].rpartition("/")[2]
            refusals.append(f'<a href="#refusal-{name}">{status}</a>')
            continue
        yield f"<p>Answer <b>{status}</b> {_text(answer['description'])}{_contents_of(answer)}</p>\n"
        for content in answer.get("content", {}).values():
            if "example" in content:
                shown = content["example"]
                yield f'<pre tabindex="0"><code>{escape(shown)}</code></pre>\n' if isinstance(shown, str) else _json(shown)
    yield f'<p class="quiet">Refusals: {", ".join(refusals)}</p>\n'


def _contents_of(answer: Json) -> str:
    for media, content in answer.get("content", {}).items():
        if "x-line" in content:
            return f" <code>{media}</code>: {_type(content['x-line'])}"
        if "x-events" in content:
            return " Their data: " + ", ".join(f"<code>{name}</code> {_type(data)}" for name, data in content["x-events"].items())
        return f": {_type(content['schema'])}" if media == JSON else f": <code>{media}</code>"
    return ""


def _refusals(document: Json) -> Iterator[str]:
    yield '<section id="refusals">\n<h2>Refusals</h2>\n<p>A refused request has changed nothing, unless its error says otherwise.</p>\n'
    for name, refusal in document["components"]["responses"].items():
        yield f'<h3 id="refusal-{name}">{name}</h3>\n<p>{_text(refusal["description"])}</p>\n'
        yield "".join(f"<p>With the header <code>{escape(header)}</code>.</p>\n" for header in refusal.get("headers", {}))
    yield "</section>\n"


def _schemas(document: Json) -> Iterator[str]:
    yield '<section id="schemas">\n<h2>Schemas</h2>\n'
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<h3 id="schema-{name}">{name}</h3>\n<p>{_text(schema["description"])}</p>\n'
        if properties := schema.get("properties"):
            required = schema.get("required", ())
            rows = [
                (f"<code>{field}</code>{' *' if field in required else ''}", _type(value), _text(value["description"]))
                for field, value in properties.items()
            ]
            yield _table(("field", "type", ""), rows)
        else:
            yield f"<p>{_type(schema)}</p>\n"
    yield '<p class="quiet">* always present</p>\n</section>\n'


def _parameter(parameter: Json) -> tuple[str, ...]:
    name = f"<code>{escape(parameter['name'])}</code>{' *' if parameter.get('required') else ''}"
    return name, parameter["in"], _type(parameter["schema"]), _text(parameter["description"])


def _type(schema: Json) -> str:
    """A schema in a few words; named schemas are linked."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{name}">{name}</a>'
    for several in ("anyOf", "oneOf"):
        if several in schema and "properties" not in schema:
            return " or ".join(_type(choice) for choice in schema[several])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        items = schema.get("prefixItems", [schema.get("items", {})])
        return f"list of {_type(items[0])}"
    if kind == "object" and "properties" in schema:
        return "{" + ", ".join(f"<code>{escape(name)}</code>: {_type(value)}" for name, value in schema["properties"].items()) + "}"
    return escape(kind) + _bounds(schema)


def _bounds(schema: Json) -> str:
    words = {"minimum": "≥", "exclusiveMinimum": "&gt;", "maximum": "≤", "exclusiveMaximum": "&lt;", "default": "default"}
    told = [f"{word} {escape(json.dumps(schema[name]))}" for name, word in words.items() if schema.get(name) is not None]
    if "maxLength" in schema:
        told.append(f"{schema.get('minLength', 0)} to {schema['maxLength']} characters")
    return f' <span class="quiet">({", ".join(told)})</span>' if told else ""


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n'


def _method(method: str) -> str:
    return f'<span class="method {method.lower()}">{method}</span>'


def _json(value: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</code></pre>\n'


def _shell(text: str) -> str:
    return f'<pre class="copy" tabindex="0"><code>{escape(text)}</code></pre>\n'


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


ROWQ, KEY = "ROWQ", "ROWQ_API_KEY"
"""The shell variables for the server's address and the key."""


def command(
    method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None, *, with_key: bool = False, streams: bool = False
) -> str:
    address = f"${ROWQ}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    parts = ["curl"]
    if streams:
        parts.append("-N")
    if method != ("GET" if body is None else "POST"):
        parts.append(f"-X {method}")
    parts.append(f'"{address}"')
    if with_key:
        parts.append(f'-H "X-API-Key: ${KEY}"')
    if body is not None:
        parts.append("-H 'Content-Type: application/json' \\\n  -d " + shlex.quote(json.dumps(body, ensure_ascii=False)))
    return " ".join(parts)
