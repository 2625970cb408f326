"""A route, and a request to it: its path, the right it requires, its query, body and answer. The table of all routes is routes.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from rowq.model.access import Right
from rowq.server.auth.authentication import Identity
from rowq.server.service import Service

Q = TypeVar("Q")
B = TypeVar("B")
Handler = Callable[..., Any]

JSON = "application/json"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"


class Route(Struct, frozen=True, kw_only=True):
    """`handler` is None for the hot routes (hot_routes.py). `right` None needs no key, "any" takes every key."""

    method: str
    path: str
    summary: str
    right: Right | Literal["any"] | None
    handler: Handler | None = None
    query: type | None = None
    body: type | None = None
    answer: Any = None
    events: dict[str, type | None] | None = None
    """The events of an event stream, and the types of their data; None for an empty object."""
    status: int = 200
    media: str = JSON
    refusals: tuple[int, ...] = ()
    """Error statuses besides those that follow from its path, body and right."""
    of_the_whole: bool = False
    """It reads or changes something beyond single queues: a key for some queues may not use it."""
    lasts: bool = False
    """It may run long, so it ends when the client leaves or the server stops; what it did until then stays."""
    name: str = ""
    tag: str = ""
    note: str = ""

    @property
    def operation(self) -> str:
        """Its operationId in OpenAPI."""
        return self.name or (self.handler.__name__ if self.handler else "")


class NoQuery(Struct, forbid_unknown_fields=True):
    """A route that takes no query."""


class ApiRequest(Struct, Generic[Q, B]):
    """A request to a route that is not hot, read and checked: the argument of its handler."""

    service: Service
    identity: Identity
    path: dict[str, str]
    headers: list[tuple[bytes, bytes]]
    query: Q
    body: B

    @property
    def queue(self) -> str:
        return self.path["queue"]

    @property
    def actor(self) -> str | None:
        return self.identity.actor
