"""One connection to a server, for threads: writes a request at once, then reads its response."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

from rowq.client.address import Address
from rowq.client.http import Answer, Garbled, Reader
from rowq.client.retrying import Estranged, Lost
from rowq.engine.waiting import Interrupt

PIECE = 256 * 1024
HURRY = b"\r\n"
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A vanished host sends nothing; the system notices after a minute, while a slow verb may well take longer."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""How the versions of OpenSSL name a response in plain HTTP."""


def open_connection(address: Address, seconds: float) -> Connection:
    try:
        plain = socket.create_connection((address.host, address.port), timeout=seconds)
    except OSError as error:
        raise unreached(error) from None
    try:
        tune(plain)
        return Connection(plain if address.tls is None else address.tls.wrap_socket(plain, server_hostname=address.host))
    except OSError as error:  # includes the errors of ssl
        plain.close()
        raise unreached(error) from None
    except BaseException:
        plain.close()
        raise


def unreached(error: OSError) -> Lost:
    """The connection was never opened, so no request was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Estranged(
            f"its certificate is not trusted ({error.verify_message})",
            "SSL_CERT_FILE in the environment may name the certificates to trust",
        )
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return Estranged("it does not speak https there", "is its address http://?")
    return Lost(str(error), may_have_arrived=False)


def tune(plain: socket.socket) -> None:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):  # each system has only some of them
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._reader = Reader()
        self._is_new = True
        self.is_asked = False
        """A request was written since the connection was taken from the pool."""
        self.idle_since = 0.0
        self.is_waiting = False
        """The server was asked to wait: closing the broker ends the wait."""

    def ask(self, request: bytes, seconds: float, interrupt: Interrupt | None = None) -> Answer:
        """Raises Lost; then the connection is unusable."""
        until = self._write(request, seconds)
        if interrupt is None:
            return self._await(until)
        with interrupt.watched(self.hurry):
            return self._await(until)

    def hurry(self) -> None:
        """Makes the server answer now what it was asked to wait for; from any thread. Servers skip an empty line where a request may begin
        (RFC 9112, 2.2), so a late one does no harm. With TLS the write waits: OpenSSL cannot write while another thread reads."""
        if not isinstance(self._socket, ssl.SSLSocket):
            with suppress(OSError):
                self._socket.send(HURRY)

    def recall(self, seconds: float) -> Answer:
        """The response to a request whose caller was interrupted while it waited. Raises Lost if no request is open."""
        if not self.is_asked:
            raise Lost("no request was sent", may_have_arrived=False)
        if not self._reader.is_complete:
            with suppress(OSError):
                self._socket.send(HURRY)
        return self._await(time.monotonic() + seconds)

    def stream(self, request: bytes, seconds: float) -> Iterator[bytes]:
        """The body of a response in chunks; the first one is empty, and means that the head has arrived."""
        reader = self._reader
        until = self._write(request, seconds)
        while not reader.has_head:
            self._read(until)
        yield b""
        while not reader.is_complete:
            yield reader.take()
            self._read(time.monotonic() + seconds)
        self._is_new = False
        yield reader.take()

    def rest(self, pieces: Iterator[bytes]) -> Answer:
        """The rest of a response that turned out to be short, not a stream."""
        body = b"".join(pieces)
        answer = self._reader.answer()
        answer.body = body
        return answer

    @property
    def status(self) -> int:
        return self._reader.status

    @property
    def may_be_kept(self) -> bool:
        return self._reader.is_complete and self._reader.keeps_alive

    def is_quiet(self) -> bool:
        """Between requests a server sends nothing; if there is something to read, it has closed the connection."""
        try:
            if not hasattr(select, "poll"):
                return not select.select([self._socket], [], [], 0)[0]
            poll = select.poll()  # select cannot handle file descriptors above 1,023
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False

    def cut(self) -> None:
        """From another thread: the reading thread then sees the end of the stream."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes it for the server too, although a forked process may still have the socket open."""
        self.cut()
        self.leave()

    def leave(self) -> None:
        """Drops it without closing it for the server: it belongs to another process."""
        with suppress(OSError):
            self._socket.close()

    def _await(self, until: float) -> Answer:
        reader = self._reader
        while not reader.is_complete:
            self._read(until)
        self._is_new = False
        return reader.answer()

    def _write(self, request: bytes, seconds: float) -> float:
        self._reader.begin()
        until = time.monotonic() + seconds
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(request)
            self.is_asked = True
        except (OSError, ValueError) as error:
            lost = Lost(str(error), may_have_arrived=False, is_stale=not self._is_new)
            if isinstance(error, TimeoutError) or not self._was_answered_early():
                raise lost from None
        return until

    def _was_answered_early(self) -> bool:
        """A server that refuses a large body may answer and close the connection before all of it is written."""
        with suppress(Lost):
            while not self._reader.is_complete:
                self._read(time.monotonic() + 1)
        return self._reader.is_complete

    def _read(self, until: float) -> None:
        try:
            self._socket.settimeout(max(0.001, until - time.monotonic()))
            data = self._socket.recv(PIECE)
            if data:
                self._reader.feed(data)
                return
            sentence = "the connection was closed"
        except TimeoutError:
            raise Lost("it took too long", may_have_arrived=True) from None
        except (OSError, ValueError, Garbled) as error:
            sentence = str(error)
        raise Lost(sentence, may_have_arrived=True, is_stale=not self._is_new and not self._reader.has_begun)
