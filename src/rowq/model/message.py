"""The values that users work with: drafts, deliveries, messages, events, counts.

Times are milliseconds since 1970 (UTC) everywhere; durations that a user gives are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import msgspec

from rowq.model.duration import Duration
from rowq.model.retry import Backoff

Payload = Any
"""`bytes`, or any JSON value; it is received as the same type."""

KvKey = str | Sequence[str | int]
"""Where an undelivered payload is kept: one part, or a path of parts."""


class PushOptions(TypedDict, total=False):
    """The options of a message besides its payload and its deadline."""

    key: str | None
    group: str | None
    priority: int
    delay: Duration
    at: datetime | None
    ttl: Duration | None
    max_attempts: int | None
    backoff: Backoff | Sequence[Duration] | None
    headers: Mapping[str, str] | None
    keys_if_undelivered: Sequence[KvKey] | None
    id: str | None


class SendOptions(PushOptions, total=False):
    """The options of a message besides its payload."""

    deadline: Duration | None


class Draft(msgspec.Struct, frozen=True):
    """A message before it is sent: `Draft({"to": "ada"}, key="welcome-42", delay=60)`."""

    payload: Payload
    key: str | None = None
    group: str | None = None
    priority: int = 0
    delay: Duration = 0
    ttl: Duration | None = None
    deadline: Duration | None = None
    max_attempts: int | None = None
    backoff: Backoff | Sequence[Duration] | None = None
    headers: Mapping[str, str] | None = None
    keys_if_undelivered: Sequence[KvKey] | None = None
    id: str | None = None
    at: datetime | None = None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message leased to one consumer until `lease_until`; `receipt` is the proof of the lease."""

    id: str
    queue: str
    payload: Payload
    headers: dict[str, str]
    attempt: int
    receipt: str
    lease_until: int
    sent_at: int
    key: str | None
    group: str | None
    priority: int


class State(StrEnum):
    """Where a message is. Each state is a table; `finished` is the history."""

    READY = "ready"
    SCHEDULED = "scheduled"
    LEASED = "leased"
    BLOCKED = "blocked"
    DEAD = "dead"
    FINISHED = "finished"


class Outcome(StrEnum):
    """The result of a settle."""

    DONE = "done"
    STALE = "stale"
    NOT_FOUND = "not_found"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as read, not leased. What does not apply to its state is None."""

    id: str
    queue: str
    state: State
    payload: Payload
    headers: dict[str, str]
    priority: int
    attempts: int
    sent_at: int
    key: str | None = None
    group: str | None = None
    ttl_ms: int | None = None
    deadline: int | None = None
    max_attempts: int | None = None
    backoff: Backoff | None = None
    keys_if_undelivered: list[list[str | int]] | None = None
    due_at: int | None = None
    expires_at: int | None = None
    lease_until: int | None = None
    leased_at: int | None = None
    consumer: str | None = None
    error: str | None = None
    reason: str | None = None
    died_at: int | None = None
    outcome: str | None = None
    finished_at: int | None = None
    cursor: str = ""
    """Pass it as `after` to continue after this message."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit."""

    at: int
    event: str
    queue: str
    id: str | None
    attempt: int | None = None
    actor: str | None = None
    detail: str | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages of a queue are in which state."""

    queue: str
    ready: int = 0
    scheduled: int = 0
    leased: int = 0
    blocked: int = 0
    dead: int = 0
    finished: int = 0
    oldest_ready_at: int | None = None
    paused: bool = False

    @property
    def depth(self) -> int:
        """What max_depth counts: everything that is still to be processed."""
        return self.ready + self.scheduled + self.leased + self.blocked


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters a redrive or a deletion takes: all that match every field that is set."""

    reason: str | None = None
    error: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Text that the last error contains. Not empty, since every error contains that."""
    fingerprint: str | None = None
    """The fingerprint of the last error, as `failures` shows it; empty for dead letters without an error."""
    key: str | None = None
    group: str | None = None
    died_before: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None
    died_after: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None


class BrowseOptions(TypedDict, total=False):
    """Which messages of a queue to list, and where the page begins. Times are milliseconds since 1970, UTC."""

    state: str
    key: str | None
    group: str | None
    text: str | None
    sent_after: int | None
    sent_before: int | None
    reason: str | None
    error: str | None
    fingerprint: str | None
    died_before: int | None
    died_after: int | None
    after: str | None
    limit: int
    newest: bool


class KvEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an undelivered message under one of its keys."""

    key: list[str | int]
    value: Payload
    written_at: int
    id: str
