"""The address and credentials of a server: a URL, parsed once and used in every request."""

from __future__ import annotations

import base64
import os
import re
import ssl
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from rowq.errors import InvalidArgument
from rowq.model.text import is_text

if TYPE_CHECKING:
    from rowq.client.exchange import Exchange

SCHEMES = ("http", "https")
API_KEY = "ROWQ_API_KEY"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_PATH = re.compile(r"[A-Za-z0-9._~/%!$&'()*+,;=:@-]*")
_SECRET = re.compile(r"[\x21-\x7e]+")


class Address:
    def __init__(self, url: str, api_key: str | None = None) -> None:
        """Raises InvalidArgument with a text that never contains a secret."""
        parts = _split(url)
        self.host, self.port = _place(parts)
        named = f"[{self.host}]" if ":" in self.host else self.host
        self.name = f"{parts.scheme}://{named}:{self.port}"
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._prefix = _prefix(parts).encode()
        port = "" if self.port == _PORTS[parts.scheme] else f":{self.port}"
        lines = [f"Host: {named}{port}", "User-Agent: rowq", "Accept: application/json, application/x-ndjson"]
        if credentials := _credentials(parts, api_key):
            lines.append(f"Authorization: {credentials}")
        self._head = "".join(f"{line}\r\n" for line in (" HTTP/1.1", *lines)).encode()

    def request(self, exchange: Exchange[object]) -> bytes:
        """The bytes of a request, to be written at once: head and body in two writes would wait for each other's acknowledgement."""
        body = exchange.body
        start = b"%s %s%s" % (exchange.method, self._prefix, exchange.target.encode())
        if body is None:
            return b"%s%s%s\r\n" % (start, self._head, exchange.headers)
        kind = b"Content-Type: application/json\r\n" if body else b""
        return b"%s%s%s%sContent-Length: %d\r\n\r\n%s" % (start, self._head, exchange.headers, kind, len(body), body)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise InvalidArgument("this is not the URL of a server: use http://host:8080") from None


def _place(parts: SplitResult) -> tuple[str, int]:
    try:
        host = parts.hostname or ""
        port = parts.port
        if ":" not in host:
            host = host.encode("idna").decode()  # raises for labels that a host name cannot have
    except ValueError:
        raise InvalidArgument("this is not the URL of a server: use http://host:8080") from None
    if not _HOST.fullmatch(host):
        raise InvalidArgument(f"{host!r} is not a host name: use http://host:8080")
    if port == 0:
        raise InvalidArgument("a server cannot listen on port 0: use http://host:8080")
    return host, port or _PORTS[parts.scheme]


def _prefix(parts: SplitResult) -> str:
    """A path prefix under which a proxy serves rowq: `https://example.com/queues`."""
    if parts.fragment or not _PATH.fullmatch(parts.path):
        raise InvalidArgument("the path of this URL cannot be requested: use http://host:8080, or http://host:8080/path")
    return parts.path.rstrip("/")


def _credentials(parts: SplitResult, api_key: str | None) -> str | None:
    if parts.username is not None or parts.password is not None:
        if api_key is not None:
            raise InvalidArgument("the URL has credentials, and there is an api_key: give one of them")
        if not parts.username or not parts.password:
            raise InvalidArgument("credentials in a URL are the name of a key and its secret: http://name:secret@host:8080")
        pair = f"{unquote(parts.username)}:{unquote(parts.password)}"
        if not is_text(pair):
            raise InvalidArgument("the name and the secret in this URL are not UTF-8")
        return "Basic " + base64.b64encode(pair.encode()).decode()
    secret: object = os.environ.get(API_KEY, "") if api_key is None else api_key
    if not secret and api_key is None:
        return None
    if not isinstance(secret, str) or not _SECRET.fullmatch(secret):
        raise InvalidArgument(f"the secret of a key is visible ASCII: check api_key, or {API_KEY} in the environment")
    return f"Bearer {secret}"
