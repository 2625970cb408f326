"""Names of the local machine. Another site's page can make a browser send requests here, but not under one of these names."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import urlsplit

_LONGEST = 300
_AUTHORITY = re.compile(rb"[A-Za-z0-9.:\[\]-]+")


def is_loopback(host: str) -> bool:
    """`host` is a name or an address, without a port."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local_host(header: bytes) -> bool:
    """The value of a Host header: `localhost:8080`, `127.0.0.1`, `[::1]:8080`."""
    return len(header) <= _LONGEST and _AUTHORITY.fullmatch(header) is not None and _is_local(b"//" + header)


def is_local_origin(header: bytes) -> bool:
    """The value of an Origin header. `null`, which sandboxed pages and local files send, is not local: any site can cause it."""
    return len(header) <= _LONGEST and header.startswith((b"http://", b"https://")) and _is_local(header)


@lru_cache(maxsize=256)
def _is_local(url: bytes) -> bool:
    try:
        parts = urlsplit(url.decode("ascii"))
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        return is_bare and parts.port != 0 and is_loopback(parts.hostname or "")
    except ValueError:  # invalid ASCII, port or address
        return False
