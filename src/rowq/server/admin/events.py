"""Tells open pages that something has changed; the pages then fetch their own contents."""

from __future__ import annotations

import asyncio

from rowq.errors import ServerUnavailable
from rowq.server.admin.request import AdminRequest
from rowq.server.http import asgi
from rowq.server.http.patience import ClientGone, first_of

EVERY = 1.0
PING_EVERY = 15.0
MOST = 100
"""Event streams open at the same time."""
_CHECK_EVERY = 5
_AGE_STEP_MS = 10_000
"""Pages show the age of waiting messages, so they refresh this often even if nothing else changes."""

_CHANGE = b"event: change\ndata: {}\n\n"
_GREETING = b"retry: 1000\n\n"
"""How many milliseconds a browser waits before it reconnects."""
_PING = b"event: ping\ndata: {}\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


async def stream_changes(request: AdminRequest, receive: asgi.Receive, send: asgi.Send) -> None:
    """Runs until the page is closed, its session or key ends, or the server stops."""
    context = request.context
    if len(context.watching) >= MOST:
        raise ServerUnavailable(f"{MOST} pages receive live updates already: close some, or reload this one to see what is new")
    me = object()
    context.watching.add(me)
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _write(send, _GREETING)
        await _tell(request, receive, send)
        await send({"type": "http.response.body", "body": b""})
    except ClientGone:
        return
    finally:
        context.watching.discard(me)


async def _tell(request: AdminRequest, receive: asgi.Receive, send: asgi.Send) -> None:
    """Always sends a first change: something may have changed between the page and its stream."""
    loop, sessions = asyncio.get_running_loop(), request.context.sessions
    seen: object = None
    turn, written, ended = 0, loop.time(), sessions.ended
    with request.service.patience() as stop:
        while True:
            await first_of(asyncio.sleep(EVERY), receive, stop)
            turn += 1
            if stop.is_set():
                return
            if turn % _CHECK_EVERY == 0 or sessions.ended != ended:
                ended = sessions.ended
                if not await sessions.holds(request.visitor):
                    await _write(send, _CHANGE)  # the page fetches itself, and is redirected to the login
                    return
            await request.context.depths.freshen()
            now_seen = _state(request)
            if now_seen != seen or loop.time() - written >= PING_EVERY:
                await _write(send, _PING if now_seen == seen else _CHANGE)
                seen, written = now_seen, loop.time()


def _state(request: AdminRequest) -> tuple[int, ...]:
    context = request.context
    age = request.service.engine.clock.now() // _AGE_STEP_MS if context.depths.has_ready else 0
    return context.depths.version, context.rates.version, age


async def _write(send: asgi.Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
