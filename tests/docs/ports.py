"""The ports that a page names, exchanged for ports that are free: two runs at the same time do not meet on one."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from dataclasses import replace

from tests.docs.page import Page

_NAMED = re.compile(r"(?:localhost|127\.0\.0\.1):(\d{5})\b")


class Ports:
    """Of one page. What it prints is translated back before it is compared with what it shows."""

    def __init__(self, page: Page) -> None:
        self._free = {named: str(reserve_ports()) for named in sorted(set(_NAMED.findall(page.text)))}
        self.page = replace(page, text=_exchange(page.text, self._free))

    def back(self, printed: str) -> str:
        return _exchange(printed, {free: named for named, free in self._free.items()})


def reserve_ports() -> int:
    """A port for a server, and the next one for its admin pages: the lower of the two."""
    while True:
        port = _reserve(0)
        with suppress(OSError):
            return _reserve(port + 1) - 1


def _reserve(port: int) -> int:
    """A port that the system gives to no other process for a minute, unless one asks for it by its number, as a server does.

    A connection that its server has ended leaves the port in TIME_WAIT: not free, but open to a server that sets SO_REUSEADDR.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            listener.accept()[0].close()
            assert client.recv(1) == b""
    return port


def _exchange(text: str, ports: dict[str, str]) -> str:
    return re.sub(r"\b\d{4,5}\b", lambda found: ports.get(found[0], found[0]), text)
