"""Keys to the server: what a key may do, and on which queues."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.queue import DEAD_SUFFIXES

Scope = Literal["send", "receive", "admin", "metrics"]
Right = Literal["send", "receive", "look", "admin", "metrics"]
"""What a request requires; `look` is reading without taking."""

SCOPES: tuple[Scope, ...] = get_args(Scope)
ALL_QUEUES = ("*",)
MAX_PATTERNS = 100
SECRET_PREFIX = "rowq_"  # noqa: S105  # the prefix of every secret, so that source-code scanners find a leaked one

_ALLOWED_BY: dict[Right, frozenset[str]] = {
    "send": frozenset({"send", "admin"}),
    "receive": frozenset({"receive", "admin"}),
    "look": frozenset({"receive", "admin"}),
    "admin": frozenset({"admin"}),
    "metrics": frozenset({"metrics", "admin"}),
}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,64}")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key's name and rights. Its secret is not here: only its owner has it."""

    name: str
    scopes: tuple[Scope, ...]
    queues: tuple[str, ...] = ALL_QUEUES
    created_at: int = 0

    @property
    def sees_all(self) -> bool:
        return "*" in self.queues


KnownKey = tuple[ApiKey, bytes]
"""A key, and the digest of its secret."""


def allows(key: ApiKey, right: Right) -> bool:
    """Whether the key has the right on any queue; `reaches` says on which."""
    return not _ALLOWED_BY[right].isdisjoint(key.scopes)


def reaches(key: ApiKey, queue: str) -> bool:
    """Dead letters belong to their queue: a key that reaches `orders` reaches `orders.dlq`."""
    name = queue[:-4] if queue.endswith(DEAD_SUFFIXES) and len(queue) > 4 else queue
    return any(_matches(pattern, name) for pattern in key.queues)


def to_key(name: object, scopes: Sequence[object], queues: Sequence[object], created_at: int) -> ApiKey:
    """A new key, checked; duplicate scopes and patterns are dropped."""
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidArgument(f"{scope!r} is not a scope; scopes are: {', '.join(SCOPES)}")
    if not scopes:
        raise InvalidArgument(f"a key without scopes is useless: give it some of {', '.join(SCOPES)}")
    if not 1 <= len(queues) <= MAX_PATTERNS:
        raise InvalidArgument(f"a key takes 1 to {MAX_PATTERNS} queue patterns, not {len(queues)}: '*' means all queues")
    return ApiKey(
        name=check_key_name(name),
        scopes=cast("tuple[Scope, ...]", tuple(dict.fromkeys(scopes))),
        queues=tuple(dict.fromkeys(_check_pattern(pattern) for pattern in queues)),
        created_at=created_at,
    )


def check_key_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is not a name for a key: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return name


def digest_of(secret: str) -> bytes:
    """The digest that is stored instead of a secret. The secret is long and random, so a plain hash reveals nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _check_pattern(pattern: Any) -> str:
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        raise InvalidArgument(f"{pattern!r} is not a queue pattern: write a queue's name, with * for any characters (orders.*)")
    if pattern.endswith(DEAD_SUFFIXES):
        raise InvalidArgument(f"{pattern!r} would match nothing: dead letters belong to their queue, so write {pattern[:-4] or '*'!r}")
    return pattern


def _matches(pattern: str, name: str) -> bool:
    """`*` matches any run of characters. Linear, part by part from the left, where a regular expression could take exponential time."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    position, last = len(first), rest.pop()
    for piece in rest:
        found = name.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(name) - len(last) >= position and name.endswith(last)
