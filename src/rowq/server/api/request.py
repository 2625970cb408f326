"""A request to a route that is not hot, read and checked: the argument of its handler."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from rowq.server.auth.authentication import Identity
from rowq.server.service import Service

Q = TypeVar("Q")
B = TypeVar("B")


class ApiRequest(msgspec.Struct, Generic[Q, B]):
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
