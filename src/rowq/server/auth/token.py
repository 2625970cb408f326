"""Short-lived tokens for clients that cannot send a header, such as a browser's EventSource: in the URL, valid for a minute."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable

LIFETIME_MS = 60_000
_TOKEN = re.compile(r"([0-9a-f]{1,12})\.([0-9a-f]{64})\.([A-Za-z0-9._-]{0,64})")
_IN_QUERY = re.compile(rb"(?:^|&)token=([^&]*)")


class Tokens:
    """Signed with a secret that ends with the process, and with the key's digest: revoking a key voids its tokens."""

    def __init__(self, now: Callable[[], int], secret: bytes | None = None) -> None:
        self._now = now
        self._secret = secret or secrets.token_bytes(32)

    def issue(self, name: str, digest: bytes) -> tuple[str, int]:
        """The token, and when it expires."""
        expires_at = self._now() + LIFETIME_MS
        return f"{expires_at:x}.{self._sign(expires_at, name, digest)}.{name}", expires_at

    def read(self, token: str, digest_of: Callable[[str], bytes | None]) -> str | None:
        """The name of the token's key; None if the token is invalid or expired, or its key is gone."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        expires_at, name = int(found[1], 16), found[3]
        digest = digest_of(name)
        if digest is None or expires_at <= self._now():
            return None
        return name if hmac.compare_digest(found[2], self._sign(expires_at, name, digest)) else None

    def _sign(self, expires_at: int, name: str, digest: bytes) -> str:
        return hmac.digest(self._secret, f"{expires_at}.{name}.".encode() + digest, "sha256").hex()


def token_in(query: bytes) -> str | None:
    """The value of `?token=`. Tokens consist of characters that need no escaping in a URL."""
    found = _IN_QUERY.search(query)
    return None if found is None else found[1].decode("ascii", "replace")
