"""Closing a connection whose client may still be sending: the client gets the last answer, and cannot hold the connection for long."""

from __future__ import annotations

import asyncio

LINGER = 1.0
"""Seconds for which a refused client may continue to send before it is cut off."""
_PATIENCE = 30.0


def hang_up(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    """Closes so that the client gets the last answer: close() with unread input makes the kernel reset the connection."""
    if transport.is_closing():
        return
    if not transport.can_write_eof():
        _close(transport, loop)
        return
    try:
        transport.write_eof()
    except OSError:  # the client has reset the connection, which the loop has not noticed yet
        transport.abort()
    else:
        loop.call_later(LINGER, _close, transport, loop)


def _close(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    transport.close()
    if transport.get_write_buffer_size():
        # close() waits without limit for the client to read the rest.
        loop.call_later(_PATIENCE, transport.abort)
