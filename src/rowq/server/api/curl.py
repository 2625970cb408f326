"""Requests as command lines for curl: what a reader of the documents can copy and run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

ROWQ, KEY = "ROWQ", "ROWQ_API_KEY"
"""The variables of the shell in which a reader keeps the server's address and a key."""


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
