"""The connection limit with several workers: it applies to all of them together."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from rowq.server.http.connection import LimitedProtocol
from rowq.server.worker_state import WorkerState

_MANY = 100
"""Up to this many refused clients get an answer; further ones are cut off without one."""


class SharedLimitProtocol(LimitedProtocol):
    __slots__ = ()

    worker_state: ClassVar[WorkerState]
    worker: ClassVar[int]
    max_together: ClassVar[int]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        beyond = self.worker_state.note_connections(self.worker, len(self.connections)) - self.max_together
        if beyond > 0 and not self._parting:
            self._refuse(503, "server_unavailable", f"All {self.max_together} connections of the server are in use: try again later.")
            if beyond > _MANY:
                transport.close()


def share_limit(protocol: type[asyncio.Protocol], worker_state: WorkerState, worker: int, max_together: int) -> type[asyncio.Protocol]:
    shared: dict[str, Any] = {"__slots__": (), "worker_state": worker_state, "worker": worker, "max_together": max_together}
    return type(protocol.__name__, (SharedLimitProtocol, protocol), shared)
