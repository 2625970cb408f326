"""The queues of a run: each is set so that another part of the promises is at stake. All keep their audit and history for good."""

from __future__ import annotations

from typing import Any

import rowq
from rowq.connect import install_peq

LEASES = (2, 3)
"""Seconds that consumers ask for: so few that many leases are lost."""
LEASES_MS = tuple(lease * 1000 for lease in LEASES)
DEEPEST = 3000
"""Where senders are told to hold back: what is left in the end must be drained."""

_COMMON: dict[str, Any] = {
    "lease": LEASES[0],
    "backoff": [0.05, 0.1, 0.2],
    "max_attempts": 10,
    "max_depth": DEEPEST,
    "audit_retention": 0,
    "retention": 0,
    "keep": "outcome",
    "paused": None,
}
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"keep": "none"},
    "grouped": {},
    "fragile": {"max_attempts": 2, "keep": "body"},
    "once": {"delivery": "at_most_once"},
    "keyed": {},
    "brief": {"ttl": 20, "on_expire": "expired", "order": "ready"},
}
IN_SQL = ("plain", "fragile", "once", "brief")
"""Those that PEQ's procedures work with: nothing in them has a key or a group."""


def most_attempts(queue: str) -> int:
    return int(settings_of(queue)["max_attempts"])


def keeps_history(queue: str) -> bool:
    return bool(settings_of(queue)["keep"] != "none")


def ttl_ms_of(queue: str) -> int | None:
    """Of messages that bring none."""
    ttl = settings_of(queue).get("ttl")
    return None if ttl is None else int(ttl) * 1000


def settings_of(queue: str) -> dict[str, Any]:
    """As `configure` takes them."""
    return _COMMON | QUEUES[queue]


def furnish(broker: rowq.Broker) -> None:
    """Sets the queues, and lets them hand out again where somebody has paused them: before a run, and once more when all is healed."""
    for queue in QUEUES:
        broker.configure(queue, **settings_of(queue))


def install_sql_apis(url: str) -> None:
    """PEQ's procedures for the queues that they can work with; on PostgreSQL only, after the tables were made."""
    for queue in IN_SQL:
        install_peq(url, queue)
