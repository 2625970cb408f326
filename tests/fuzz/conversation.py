"""Bare connections to a server, many at once: what is said over each, and all that is heard until the server hangs up."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from ipaddress import IPv4Address
from itertools import count

PATIENCE = 60.0
AT_ONCE = 60
"""Connections that are open together."""

_ADDRESSES = map(str, map(IPv4Address, count(int(IPv4Address("127.1.0.1")))))


def connect(port: int) -> socket.socket:
    """From an address of this machine that nobody had before: where a key was spoilt too often, nobody else is locked out."""
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(next(_ADDRESSES), 0))


def conversations(port: int, said: list[bytes], quiet: float = 1.0, patience: float = PATIENCE) -> list[tuple[bytes, bytes]]:
    """Says each over a connection of its own, hears what comes until it is quiet, says goodbye, and hears the rest until the server has
    hung up: one that does not hang up is a failure."""
    return [heard for start in range(0, len(said), AT_ONCE) for heard in _together(port, said[start : start + AT_ONCE], quiet, patience)]


def _together(port: int, said: list[bytes], quiet: float, patience: float) -> list[tuple[bytes, bytes]]:
    heard = [bytearray() for _ in said]
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for number, data in enumerate(said):
            connection = opened.enter_context(connect(port))
            selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, (number, bytearray(data)))
            connection.setblocking(False)
        is_over = False
        until, deadline = time.monotonic() + quiet, time.monotonic() + patience
        while selector.get_map():
            happened = [_turn(selector, key, mask, heard) for key, mask in selector.select(0.05)]
            if any(happened):
                until = time.monotonic() + quiet
            if not is_over and time.monotonic() > until:
                is_over = True
                for key in list(selector.get_map().values()):
                    _say_goodbye(key.fileobj)
            assert time.monotonic() < deadline, f"not hung up on: {[said[key.data[0]] for key in selector.get_map().values()]}"
    return [(data, bytes(answer)) for data, answer in zip(said, heard, strict=True)]


def _turn(selector: selectors.BaseSelector, key: selectors.SelectorKey, mask: int, heard: list[bytearray]) -> bool:
    """Whether anything happened."""
    connection, (number, rest) = key.fileobj, key.data
    assert isinstance(connection, socket.socket)
    try:
        if mask & selectors.EVENT_WRITE:
            del rest[: connection.send(rest[:65_536])]
            if not rest:
                selector.modify(connection, selectors.EVENT_READ, key.data)
        if mask & selectors.EVENT_READ:
            piece = connection.recv(65_536)
            heard[number] += piece
            if not piece:
                raise ConnectionResetError
    except BlockingIOError:
        return False
    except OSError:  # it hung up, in one way or another
        selector.unregister(connection)
        connection.close()
    return True


def _say_goodbye(connection: object) -> None:
    assert isinstance(connection, socket.socket)
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return
