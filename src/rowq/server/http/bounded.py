"""Limits on one connection: answers that the client does not read, and requests that wait behind others."""

from __future__ import annotations

import asyncio

from rowq.server.http.shortcut import ShortcutProtocol

MAX_PIPELINED = 100
UNREAD_TIMEOUT = 60.0
"""Seconds for which a client may leave its answers unread before the connection is aborted."""


class BoundedProtocol(ShortcutProtocol):
    _unread: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_unread()

    @property
    def is_piled_up(self) -> bool:
        """uvicorn resumes reading after every answer, however many requests are waiting."""
        return len(self.pipeline) > MAX_PIPELINED

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
