"""Where the server listens: sockets on every address of its host, and TLS. Failures raise InvalidArgument."""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import suppress

from rowq.errors import InvalidArgument
from rowq.server.auth.loopback import is_loopback

_OTHER_FILES = 100
"""Files besides connections: the database and its log, the logs, the listening sockets."""
_UNUSABLE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def open_sockets(host: str, port: int, backlog: int, option: str = "--port (or ROWQ_PORT)") -> list[socket.socket]:
    """`localhost` is usually two addresses; with port 0 all get the same free port."""
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            known = sockets[0].getsockname()[1] if sockets else port
            with suppress(_Unusable):
                sockets.append(_bound(family, (address[0], known, *address[2:]), backlog, option))
        if not sockets:
            raise InvalidArgument(f"{host} is not an address of this machine")
    except BaseException:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def allow_connections(count: int) -> int:
    """Raises the limit of open files, 1,024 on many systems, as far as allowed. Returns how many connections fit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return count if soft == resource.RLIM_INFINITY else max(1, min(count, soft - _OTHER_FILES))


def is_exposed(sockets: list[socket.socket]) -> bool:
    """Whether other machines can connect; decided by the addresses, since a name may resolve to anything."""
    return not all(is_loopback(listening.getsockname()[0]) for listening in sockets)


def tls_context(cert: str, key: str | None, *, http2: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    try:
        # Without this, OpenSSL would ask the terminal for the passphrase, and a service would hang.
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"tls_cert {cert!r} and its key cannot be used: {error}") from None
    return context


class _Unusable(Exception):
    """One of the addresses of a name does not exist here, such as ::1 on a machine without IPv6."""


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(f"{host!r} is not a host to listen on: {error}") from None
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _bound(family: int, address: tuple[object, ...], backlog: int, option: str) -> socket.socket:
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise _Unusable from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(backlog)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        if error.errno in _UNUSABLE:
            raise _Unusable from None
        advice = f": it is already in use, choose another {option}" if error.errno == errno.EADDRINUSE else f": {error.strerror}"
        raise InvalidArgument(f"cannot listen on port {address[1]} of {address[0]}{advice}") from None
    return listening
