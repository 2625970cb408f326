"""Every regular expression of the package, and whether a long text can make one take for ever."""

from __future__ import annotations

import pkgutil
import re
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import rowq

LONG = 16_000
"""Half of what a request line may have, which is what strangers can give."""
SECONDS = 0.2
PIECES = (
    "a",
    "0",
    "A",
    "é",
    " ",
    "\n",
    "-",
    "_",
    ".",
    "/",
    ":",
    "@",
    "'",
    '"',
    "\\",
    ",",
    ";",
    "=",
    "&",
    "%",
    "*",
    "?",
    "f-",
    "a.",
    "/a",
    "0.",
    "a@",
    " :",
    "://",
)
ENDS = ("", "!", "\0", "://", ":", "@", "'")
_OUR_OWN = (
    *("rowq.spark", "rowq.spark.pipeline", "rowq.server.compat.forq.environment"),  # what the operator says who starts them
    *("rowq.store.query", "rowq.store.migrations", "rowq.store.postgresql.peq", "rowq.store.mariadb.statement"),  # our SQL
    *("rowq.store.sqlite.session", "rowq.store.postgresql.session", "rowq.store.mariadb.doctor"),
)
"""Modules whose patterns read no text of a stranger."""
_MOVED = ("rowq.ledger", "rowq.pipeline")
"""Old names of modules, which warn."""


def patterns() -> dict[str, re.Pattern[Any]]:
    """Those that modules keep, by module and name."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in pkgutil.walk_packages(rowq.__path__, "rowq."):
        if not module.name.startswith(_OUR_OWN) and module.name not in _MOVED:
            for name, value in vars(import_module(module.name)).items():
                for number, pattern in enumerate(_within(value)):
                    found.setdefault(f"{module.name}.{name}.{number}", pattern)
    return found


def _within(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | Mapping):
        for item in [*value, *(value.values() if isinstance(value, Mapping) else ())]:
            yield from _within(item, depth - 1)


def slowest(pattern: re.Pattern[Any], long: int = LONG) -> tuple[float, str]:
    """Seconds of computing for the text that takes longest, and how that begins."""
    worst = (0.0, "")
    for piece in PIECES:
        for end in ENDS:
            text = piece * (long // len(piece)) + end
            began = time.thread_time()
            pattern.search(text if isinstance(pattern.pattern, str) else text.encode())
            worst = max(worst, (time.thread_time() - began, f"{piece}…{end}"))
            if worst[0] > SECONDS:
                return worst
    return worst
