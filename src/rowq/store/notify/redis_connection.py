"""A connection to Redis that opens on first use and again after a failure; only this module uses the driver."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rowq.errors import InvalidArgument

_SCHEMES = ("redis", "rediss", "unix")
_EXAMPLES = "redis://localhost:6379, rediss://user:password@host:6379/0 for TLS, or unix:///run/redis.sock"
_PARAMETERS = ("db", "username", "password", "client_name")

_Word = str | bytes | int


class RedisAway(Exception):
    """No answer: Redis is unreachable, silent, or refuses the command; or the connection was cut."""

    def __init__(self, sentence: str, *, is_refusal: bool = False) -> None:
        super().__init__(sentence)
        self.is_refusal = is_refusal
        """Redis answered with an error."""


def check_redis_url(url: str) -> str:
    """The URL, ready for a RedisConnection. Errors do not quote it, because it may contain a password."""
    if not isinstance(url, str):
        raise InvalidArgument(f"a Redis URL is text, such as {_EXAMPLES}; not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in _SCHEMES:
        raise InvalidArgument(f"this is not a Redis URL: use {_EXAMPLES}")
    url = f"{scheme.lower()}://{rest}"
    _check_address(url)
    _make_connection(url, timeout=1.0)
    return url


class RedisConnection:
    """For one thread; only `cut` may be called from another."""

    def __init__(self, url: str, timeout: float) -> None:
        """`timeout`: seconds for opening the connection, and for each answer."""
        self._connection = _make_connection(check_redis_url(url), timeout)
        self._is_cut = False

    def ask(self, *words: _Word) -> Any:
        """The answer to a command that may be sent twice: an idle connection may turn out to be broken."""
        was_open = self._connection.is_connected
        try:
            return self._ask_once(*words)
        except RedisAway as error:
            if not was_open or error.is_refusal:
                raise
        return self._ask_once(*words)

    def send(self, *words: _Word) -> None:
        with self._failing():
            self._say(*words)

    def read(self, seconds: float) -> Any:
        """The next answer; None if none arrives in time."""
        from redis.exceptions import TimeoutError as Silence

        with self._failing():
            try:
                return self._connection.read_response(timeout=seconds, disconnect_on_error=False)
            except Silence:
                return None

    def hang_up(self) -> None:
        """The next command opens it again."""
        with suppress(Exception):  # the connection is dropped in any case
            self._connection.disconnect()

    def cut(self) -> None:
        """Permanently, and from any thread: the thread that uses the connection fails at once and has to hang up."""
        self._is_cut = True
        with suppress(Exception):  # the socket may not exist yet, or no longer
            # The driver would also close the socket, and its number could be reused before the waiting thread wakes up.
            self._connection._sock.shutdown(socket.SHUT_RDWR)

    def leave_to_parent(self) -> None:
        """In the child of a fork: drops the socket. The driver knows that it belongs to the parent and sends nothing on it."""
        self._is_cut = True
        self.hang_up()

    def _ask_once(self, *words: _Word) -> Any:
        with self._failing():
            self._say(*words)
            return self._connection.read_response()

    def _say(self, *words: _Word) -> None:
        self._connection.connect()
        self._check_uncut()  # `cut` has no effect while the connection opens
        self._connection.send_command(*words)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        from redis.exceptions import ResponseError

        try:
            self._check_uncut()
            yield
        except Exception as error:  # the driver does not wrap errors of sockets, name resolution and TLS
            self.hang_up()
            raise RedisAway(str(error) or type(error).__name__, is_refusal=isinstance(error, ResponseError)) from error

    def _check_uncut(self) -> None:
        if self._is_cut:
            raise RedisAway("the connection was cut")


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidArgument(
            f"the host or port of this Redis URL cannot be read: use {_EXAMPLES}; in a password, write / as %2F, # as %23, @ as %40"
        ) from None
    if parts.scheme == "unix":
        if not parts.path:
            raise InvalidArgument("this Redis URL names no socket: use unix:///run/redis.sock")
    elif not (parts.path.strip("/") or "0").isdecimal():
        raise InvalidArgument(f"the database in a Redis URL is a number: use {_EXAMPLES}")
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name not in _PARAMETERS and not name.startswith("ssl_"):
            raise InvalidArgument(f"unknown URL parameter {name!r}: Redis URLs take {', '.join(_PARAMETERS)} and, with rediss://, ssl_…")


def _make_connection(url: str, timeout: float) -> Any:
    try:
        from redis.connection import Connection, parse_url
        from redis.exceptions import RedisError
    except ImportError:
        raise InvalidArgument("Redis needs a package that is not installed: pip install 'rowq[redis]'") from None
    try:
        options = parse_url(url)  # type: ignore[no-untyped-call]
        kind = options.pop("connection_class", Connection)
        return kind(
            **options,
            protocol=2,  # one kind of answer, also on channels
            driver_info=None,  # saves two round trips when opening
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
        )
    except (TypeError, ValueError, RedisError) as error:
        raise InvalidArgument(f"a parameter of this Redis URL does not fit: {error}") from None
