"""A request whose head the server has seen before: without a parser, a task, or ASGI's messages.

A client repeats the head of its requests; only the length of the body and an idempotency key differ. What follows from the other bytes
(route, headers, API key) is worked out once. A request with such a head that arrives whole, in one read, on an idle connection, needs only
its body to be read, and its handler runs on callbacks. uvicorn serves all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from rowq.server.http.asgi import Headers, Message, Scope
from rowq.server.http.shortcut import ANSWER, ShortcutProtocol

_log = logging.getLogger("rowq.server")

MAX_HEADS = 1_000
MAX_HEAD_BYTES = 4_096
_LENGTH = b"ength: "
_LENGTH_LINE = b"\r\ncontent-length: "
_MOST_DIGITS = 8
_REQUEST_KEY = b"dempotency-"
_REQUEST_KEY_LINE = b"\r\nidempotency-key: "
_MOST_PLAIN = 64
"""An idempotency key of at most this many letters, digits and hyphens may differ from request to request."""
_UNREPEATABLE = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
_OF_ALL = ("type", "http_version", "scheme", "method", "path", "raw_path", "query_string", "root_path", "headers")
"""What a head says by itself; the rest of a scope belongs to one connection."""

Handler = Callable[["Exchange"], Coroutine[Any, Any, None]]
"""Runs without a task: what it awaits must not use `asyncio.timeout`, `asyncio.current_task` or context variables."""


class Known(NamedTuple):
    """What follows from a head."""

    scope: Scope
    """Shared by all requests with this head: only to be read. Length and idempotency key are the first request's."""
    handler: Handler


class Beginner(Protocol):
    """An application that can serve requests without ASGI."""

    heads: Heads

    def find_handler(self, scope: Scope) -> Handler | None:
        """The handler of all requests with this scope, of any client; None if they need ASGI."""


class Heads:
    """Known heads by their bytes, without what varies. Only those of admitted clients are kept, and not many."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def find(self, data: bytes) -> tuple[Known, bytes, bytes | None] | None:
        """What is known of a request, its body, its idempotency key; None if its head is not known, or if this is not one whole request."""
        shape, digits, body, request_key = _split(data)
        known = self._known.get(shape)
        if known is None or not digits.isdigit() or len(digits) > _MOST_DIGITS or int(digits) != len(body):
            return None
        return known, body, request_key

    def learn(self, data: bytes, scope: Scope, application: Beginner, max_bytes: int = MAX_HEAD_BYTES) -> None:
        """`data` is one read, which begins with the request of this scope and holds all of its head."""
        shape, _, _, request_key = _split(data)
        names = [name for name, _ in scope["headers"]]
        if (
            not shape[: shape.find(_LENGTH) + len(_LENGTH)].lower().endswith(_LENGTH_LINE)
            or len(shape) > min(max_bytes, MAX_HEAD_BYTES) - _MOST_DIGITS - _MOST_PLAIN
            or names.count(b"idempotency-key") != (request_key is not None)
            or not _UNREPEATABLE.isdisjoint(names)
            or scope["http_version"] != "1.1"
            or b"\r\n " in shape
            or b"\r\n\t" in shape  # folded lines, which no parser should let through
        ):
            return
        of_all = {name: scope[name] for name in _OF_ALL}
        handler = application.find_handler(of_all)
        if handler is None:
            return
        if len(self._known) >= MAX_HEADS:
            self._known.clear()
        self._known[shape] = Known(of_all, handler)


def _split(data: bytes) -> tuple[bytes, bytes, bytes, bytes | None]:
    """The head without what varies, the digits of the length, the body, and the idempotency key. Nothing, if the key is not a plain one.

    Each is cut out after the first place where it may be, so two heads that differ elsewhere never become the same. Without a length, what
    is cut out is not made of digits."""
    end = data.find(b"\r\n\r\n") + 4
    request_key = None
    if (place := data.find(_REQUEST_KEY, 0, end)) > 0:
        start = place - 3 + len(_REQUEST_KEY_LINE)
        stop = data.find(b"\r", start)
        request_key = data[start:stop]
        if data[place - 3 : start].lower() != _REQUEST_KEY_LINE or not _is_plain(request_key):
            return b"", b"", b"", None
        data, end = data[:start] + data[stop:], end - len(request_key)
    start = data.find(_LENGTH, 0, end) + len(_LENGTH)
    stop = data.find(b"\r", start)
    return data[:start] + data[stop:end], data[start:stop], data[end:], request_key


def _is_plain(request_key: bytes) -> bool:
    return len(request_key) <= _MOST_PLAIN and request_key.replace(b"-", b"").isalnum()


def _go_on(future: asyncio.Future[None]) -> None:
    if not future.done():  # the server's end may have cancelled it
        future.set_result(None)


class _NoEvent:
    """Stands where uvicorn sets an event for which nothing waits."""

    def set(self) -> None:
        pass


class Exchange:
    """One such request and its answer: uvicorn's protocol takes it for the cycle of a request, the hot routes for a shortcut."""

    headers: Headers = []  # noqa: RUF012  # replaced, never changed
    """Those that the hot routes read."""
    disconnected = False
    keep_alive = True
    more_body = False
    body = b""
    message_event: Any = _NoEvent()
    response_started = False
    response_complete = False
    is_hurried = False
    wait_ends: asyncio.Event | None = None

    def __init__(self, protocol: ShortcutProtocol, known: Known, body: bytes, request_key: bytes | None) -> None:
        self._protocol = protocol
        self._body: bytes | None = body
        self.on_response: Callable[[], None] = protocol.on_response_complete
        self._coroutine: Any = known.handler(self)
        if request_key is not None:
            self.headers = [(b"idempotency-key", request_key)]

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
            self._protocol.flow.resume_reading()  # a request behind this one has paused it; only a reader learns that the client leaves
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
        if self.disconnected or self.response_complete:
            return True
        self.response_complete = True
        protocol = self._protocol
        start = STATUS_LINE[status] + protocol.default_fields()
        if headers:
            self.keep_alive &= (b"connection", b"close") not in headers
            start += b"".join([b"%b: %b\r\n" % field for field in headers if field[0] != b"connection"])
        if not self.keep_alive:
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
            if future is None:  # asyncio.sleep(0): the handler goes on with the loop's next iteration
                future = self._protocol.loop.create_future()
                future.get_loop().call_soon(_go_on, future)
            future._asyncio_future_blocking = False  # as a task says to a future that it has waited for it
            future.add_done_callback(self.run)
            tasks.add(future)

    def _fail(self, error: BaseException) -> None:
        """The application answers errors itself: this one was not foreseen, or the server ends before the answer is there."""
        _log.error("a request was not answered", exc_info=error)
        if not self.response_complete:
            self.keep_alive = False
            self.answer(500, b'{"code":"internal","error":"the server failed to do this; see its log"}')
