"""A request whose head the server has seen before: without a parser, a task, or ASGI's messages.

A client repeats the head of its requests; only the length of the body differs. What follows from the other bytes (route, headers, key) is
worked out once. A request with such a head that arrives whole, in one read, on an idle connection, needs only its body to be read, and
its handler runs on callbacks. uvicorn serves all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from rowq.server.http.asgi import Headers, Message, Scope
from rowq.server.http.shortcut import ANSWER, ShortcutProtocol

_log = logging.getLogger("rowq.server")

MAX_HEADS = 1_000
MAX_HEAD_BYTES = 4_096
_LENGTH = b"ength: "
_LENGTH_LINE = b"\r\ncontent-length: "
_MOST_DIGITS = 8
_UNREPEATABLE = frozenset({b"expect", b"idempotency-key", b"transfer-encoding", b"upgrade"})
_OF_ALL = ("type", "http_version", "scheme", "method", "path", "raw_path", "query_string", "root_path", "headers")
"""What a head says by itself; the rest of a scope belongs to one connection."""

Handler = Callable[["Exchange"], Coroutine[Any, Any, None]]


class Known(NamedTuple):
    """What follows from a head."""

    scope: Scope
    """Shared by all requests with this head: only to be read, and its `content-length` is the first one's."""
    handler: Handler


class Beginner(Protocol):
    """An application that can serve requests without ASGI."""

    heads: Heads

    def find_handler(self, scope: Scope) -> Handler | None:
        """The handler of all requests with this scope, whoever is connected; None if they need ASGI."""


class Heads:
    """Known heads by their bytes, without the digits of their `content-length`. Only those of admitted clients are kept, and not many."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def find(self, data: bytes) -> tuple[Known, bytes] | None:
        """What is known of a request, and its body; None if its head is not known, or if this is not one whole request."""
        start = data.find(_LENGTH) + len(_LENGTH)
        stop = data.find(b"\r", start)
        end = data.find(b"\r\n\r\n", stop) + 4
        known = self._known.get(data[:start] + data[stop:end])
        if known is None:
            return None
        digits, body = data[start:stop], data[end:]
        return (known, body) if digits.isdigit() and len(digits) <= _MOST_DIGITS and int(digits) == len(body) else None

    def learn(self, data: bytes, scope: Scope, application: Beginner, max_bytes: int = MAX_HEAD_BYTES) -> None:
        """`data` is one read, which begins with the request of this scope and holds all of its head."""
        start = data.find(_LENGTH) + len(_LENGTH)
        stop = data.find(b"\r", start)
        end = data.find(b"\r\n\r\n", stop) + 4
        if (
            end > min(max_bytes, MAX_HEAD_BYTES) - _MOST_DIGITS
            or data[:start][-len(_LENGTH_LINE) :].lower() != _LENGTH_LINE
            or scope["http_version"] != "1.1"
        ):
            return
        if not _UNREPEATABLE.isdisjoint([name for name, _ in scope["headers"]]):
            return
        of_all = {name: scope[name] for name in _OF_ALL}
        handler = application.find_handler(of_all)
        if handler is None:
            return
        if len(self._known) >= MAX_HEADS:
            self._known.clear()
        self._known[data[:start] + data[stop:end]] = Known(of_all, handler)


class _NoEvent:
    """Stands where uvicorn sets an event for which nothing waits."""

    def set(self) -> None:
        pass


class Exchange:
    """One such request and its answer: uvicorn's protocol takes it for the cycle of a request, the hot routes for a shortcut."""

    headers: ClassVar[Headers] = []
    """Of a head that is repeated, none is left for the hot routes to read."""
    disconnected = False
    keep_alive = True
    more_body = False
    body = b""
    message_event: Any = _NoEvent()
    response_started = False
    response_complete = False
    is_hurried = False
    wait_ends: asyncio.Event | None = None

    def __init__(self, protocol: ShortcutProtocol, known: Known, body: bytes) -> None:
        self._protocol = protocol
        self._body: bytes | None = body
        self.on_response: Callable[[], None] = protocol.on_response_complete
        self._coroutine: Any = known.handler(self)

    @property
    def client(self) -> tuple[str, int] | None:
        return self._protocol.client

    @property
    def shortcut(self) -> Exchange:
        return self

    @property
    def is_gone(self) -> bool:
        return self.disconnected

    def take_body(self, limit: int) -> bytes | None:
        body = self._body
        if body is None or len(body) > limit:
            return None
        self._body = None
        return body

    async def receive(self) -> Message:
        """The body, unless it was taken; afterwards a disconnect, when the client leaves."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.disconnected:
            self.message_event = asyncio.Event()
            await self.message_event.wait()
        return {"type": "http.disconnect"}

    def hurry(self) -> None:
        """The client no longer wants to wait for messages: it is answered with what there is."""
        self.is_hurried = True
        if self.wait_ends is not None:
            self.wait_ends.set()

    def answer(self, status: int, body: bytes, headers: Headers | None = None) -> bool:
        """Always true: the client was reading when the request came, and nothing was written since."""
        if self.disconnected:
            return True
        self.response_complete = True
        protocol = self._protocol
        start = STATUS_LINE[status] + protocol.default_fields()
        if headers:
            start += b"".join([b"%b: %b\r\n" % field for field in headers])
            self.keep_alive &= (b"connection", b"close") not in headers
        elif not self.keep_alive:
            start += b"connection: close\r\n"
        protocol.transport.write(start + ANSWER % (len(body), body))
        if not self.keep_alive:
            protocol.transport.close()
        self.on_response()
        return True

    def run(self, waited_for: Any = None) -> None:
        """Runs the handler until it waits for a future, as a task does. The server waits for that future before it stops."""
        tasks = self._protocol.tasks
        tasks.discard(waited_for)
        try:
            future = self._coroutine.send(None)
        except StopIteration:
            self._coroutine = None  # it refers to the exchange
        except BaseException as error:
            self._coroutine = None
            self._fail(error)
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        else:
            future._asyncio_future_blocking = False  # as a task says to a future that it has waited for it
            future.add_done_callback(self.run)
            tasks.add(future)

    def _fail(self, error: BaseException) -> None:
        """The application answers errors itself: this one was not foreseen, or the server ends before the answer is there."""
        _log.error("a request was not answered", exc_info=error)
        if not self.response_complete:
            self.keep_alive = False
            self.answer(500, b'{"code":"internal","error":"the server failed to do this; see its log"}')
