"""The end of a connection whose client may still be sending: it hears the last words, and does not keep us for long."""

from __future__ import annotations

import asyncio

LINGER = 1.0
"""Seconds for which a client that was turned away may go on sending before it is cut off."""
_PATIENCE = 30.0


def hang_up(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    """Closes so that the client hears the last words: close() with unread input makes the kernel reset the connection, answer and all."""
    if transport.is_closing():
        return
    if not transport.can_write_eof():
        _close(transport, loop)
        return
    try:
        transport.write_eof()
    except OSError:  # the client has reset the connection, and the loop has not looked at it since
        transport.abort()
    else:
        loop.call_later(LINGER, _close, transport, loop)


def _close(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    transport.close()
    if transport.get_write_buffer_size():
        # close() waits for a client to read what is left, for as long as it likes.
        loop.call_later(_PATIENCE, transport.abort)
