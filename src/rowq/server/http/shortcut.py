"""A shorter path between the hot routes and the connection than ASGI's messages: the body as received, the answer in one write.

uvicorn writes the headers and the body of an answer with one system call each, and checks every header twice. An application that has
its whole answer ready can skip this. Without such a connection (HTTP/2, another server, tests), ASGI is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

EXTENSION = "rowq.shortcut"
ANSWER = b"content-type: application/json\r\ncache-control: no-store\r\ncontent-length: %d\r\n\r\n%b"
"""Of the length and the body; after the status line and the headers of every answer."""
_STARTS: dict[int, bytes] = {status: STATUS_LINE[status] for status in HTTPStatus}


class Running(Protocol):
    """The request that is being served."""

    def hurry(self) -> None: ...


class Shortcut:
    """The current request of a connection. One object serves all its requests: one per request would form a reference cycle with the
    request, which only the garbage collector could free."""

    __slots__ = ("_default_headers", "cycle", "is_hurried", "wait_ends")

    def __init__(self, default_headers: Callable[[], bytes]) -> None:
        self.cycle: RequestResponseCycle
        self.is_hurried = False
        self.wait_ends: asyncio.Event | None = None
        self._default_headers = default_headers

    def take_body(self, limit: int) -> bytes | None:
        """The whole body, if it has arrived and is not too large."""
        cycle = self.cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue or len(cycle.body) > limit:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        return body

    def hurry(self) -> None:
        """The client no longer wants to wait for messages: it is answered with what there is."""
        self.is_hurried = True
        if self.wait_ends is not None:
            self.wait_ends.set()

    @property
    def is_gone(self) -> bool:
        return self.cycle.disconnected

    def answer(self, status: int, body: bytes) -> bool:
        """False if ASGI must be used: the client reads too slowly, or the connection ends with this answer."""
        cycle = self.cycle
        if cycle.disconnected:
            return True
        if cycle.flow.write_paused or not cycle.keep_alive or cycle.response_started:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(_STARTS[status] + self._default_headers() + ANSWER % (len(body), body))
        cycle.message_event.set()
        cycle.on_response()
        return True


def shortcut_of(scope: Any) -> Shortcut | None:
    found: Shortcut | None = scope.get(EXTENSION)
    return found


class ShortcutProtocol(HttpToolsProtocol):
    """A connection that offers the shortcut to its requests."""

    __slots__ = ("_fields", "_fields_made_of", "_running", "_shortcut")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._fields_made_of: list[tuple[bytes, bytes]] | None = None
        self._shortcut = Shortcut(self.default_fields)
        super().connection_made(transport)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._shortcut.cycle = cycle
        self._shortcut.is_hurried = False
        self._running: Running = self._shortcut
        cycle.scope[EXTENSION] = self._shortcut  # type: ignore[literal-required]
        super()._start_asgi_task(cycle, app)

    def default_fields(self) -> bytes:
        """The headers of every answer, joined once a second, when uvicorn updates the date."""
        fields = self.server_state.default_headers
        if fields is not self._fields_made_of:
            self._fields_made_of = fields
            self._fields = b"".join(b"%b: %b\r\n" % field for field in fields)
        return self._fields
