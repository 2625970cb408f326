"""Forq's environment variables, so that rowq can be started like Forq. ROWQ_… variables and flags take precedence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from rowq.errors import InvalidArgument
from rowq.model.access import SCOPES
from rowq.model.text import check_text
from rowq.server.sources import Given, nearest

_PREFIX = "FORQ_"
_ADDRESS = re.compile(r"(?:\[(?P<ip>[0-9A-Fa-f:.]+)\]|(?P<name>[^\[\]:/\s]*)):(?P<port>[0-9]{1,5})")
_TTLS = {"FORQ_QUEUE_TTL_HOURS": "queue_ttl_hours", "FORQ_DLQ_TTL_HOURS": "dlq_ttl_hours"}
_SECRETS = {"FORQ_AUTH_SECRET": ("forq", SCOPES), "FORQ_METRICS_AUTH_SECRET": ("forq-metrics", ("metrics",))}
_METRICS = "FORQ_METRICS_ENABLED"
_ADDRESSES = {"FORQ_API_ADDR": "", "FORQ_UI_ADDR": "admin_"}
KNOWN = (*_TTLS, *_SECRETS, _METRICS, "FORQ_DB_PATH", *_ADDRESSES)


def read_forq(environment: Mapping[str, str]) -> Given:
    """Empty variables are ignored. Unknown ones cause a warning, not an error: some of Forq's have no meaning here."""
    said = {name: text for name, text in environment.items() if name.startswith(_PREFIX) and text}
    given = Given()
    if not said:
        return given
    given.scalars["metrics"] = (_METRICS, said.get(_METRICS, "false"))
    if path := said.get("FORQ_DB_PATH"):
        given.scalars["url"] = ("FORQ_DB_PATH", f"sqlite:///{quote(check_text(path, 'FORQ_DB_PATH'))}")
    for name, prefix in _ADDRESSES.items():
        if address := said.get(name):
            host, port = _address(name, address)
            given.scalars |= {f"{prefix}host": (name, host), f"{prefix}port": (name, port)}
    if hours := {field: _hours(name, said[name]) for name, field in _TTLS.items() if name in said}:
        given.compat["forq"] = (" and ".join(name for name in _TTLS if name in said), hours)
    secrets = {said[name]: name for name in reversed(_SECRETS) if name in said}  # the same secret twice is one key, with the wider scopes
    given.keys = [(name, {"name": _SECRETS[name][0], "scopes": list(_SECRETS[name][1]), "secret": text}) for text, name in secrets.items()]
    given.remarks = [f"{name} has no effect{nearest(name, KNOWN)}" for name in said if name not in KNOWN]
    return given


def _address(name: str, text: str) -> tuple[str, int]:
    """`localhost:8080`, `[::1]:8080`, or `:8080` for every address of the machine."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise InvalidArgument(f"{name} must be a host and a port, such as localhost:8080, not {text!r}")
    return match["ip"] or match["name"] or "0.0.0.0", int(match["port"])  # noqa: S104  # as Forq does; it requires a key  # nosec


def _hours(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InvalidArgument(f"{name} must be a whole number of hours, not {text!r}")
    return int(text)
