"""Sessions of the admin pages: a cookie with a random token, of which the database keeps the digest.

A visitor who has not logged in has such a cookie too: forms are tied to it. Logging in replaces it, which prevents session fixation.
"""

from __future__ import annotations

import hmac
import re
import secrets
from hashlib import sha256
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from rowq.errors import Forbidden, Unauthorized
from rowq.server.auth.authentication import ANONYMOUS, Identity, admit_local, check_own_page
from rowq.server.auth.loopback import is_local_host
from rowq.server.http import asgi
from rowq.server.service import Service

COOKIE = "ForqSession"
SAFE = ("GET", "HEAD")
"""Methods that change nothing."""
LIFETIME_MS = 7 * 86_400_000
_COOKIE = re.compile(rb"(?:^|;)\s*ForqSession=([A-Za-z0-9_-]{43})\s*(?:;|$)")


class Visitor(Struct):
    """`identity` is None before login."""

    token: str
    identity: Identity | None
    is_new: bool
    """The browser does not have the token yet."""
    is_local: bool
    """The request was for localhost, so the cookie may travel without TLS."""

    @property
    def csrf(self) -> str:
        """The token in every form; computing it requires the cookie."""
        return hmac.digest(self.token.encode(), b"csrf", "sha256").hex()

    def check_form(self, given: str | None) -> None:
        if given is None or not hmac.compare_digest(given.encode(), self.csrf.encode()):
            raise Forbidden("this form did not come from a page of this server, or the page is outdated: open the page again")

    def give_cookie(self, response: Response) -> None:
        response.set_cookie(
            COOKIE, self.token, max_age=LIFETIME_MS // 1000, path="/", secure=not self.is_local, httponly=True, samesite="lax"
        )


class Sessions:
    def __init__(self, service: Service) -> None:
        self._service = service
        self.ended = 0
        """Counts logouts."""

    async def greet(self, scope: asgi.Scope) -> Visitor:
        """Raises Forbidden for a page of another site."""
        host, token = _read(scope)
        is_local = host is not None and is_local_host(host)
        authenticator = self._service.authenticator
        changes = scope["method"] not in SAFE
        if authenticator.is_open:
            if changes:
                admit_local(scope)
            elif not is_local:  # another site may link here, but not under a host name of its own (DNS rebinding)
                raise Forbidden("without keys these pages answer to localhost only: open them under that name, or give the server a key")
            return Visitor(token or new_token(), ANONYMOUS, token is None, is_local)
        if changes:
            check_own_page(scope)
        identity = None if token is None else await self._find(token)
        return Visitor(token or new_token(), identity, token is None, is_local)

    async def holds(self, visitor: Visitor) -> bool:
        """Whether the visitor would still be let in; for long-lived requests."""
        if visitor.identity is None or not self._service.authenticator.holds(visitor.identity):
            return False
        return visitor.identity.name is None or await self._find(visitor.token) is not None

    async def log_in(self, visitor: Visitor, secret: str, address: str) -> Visitor:
        """Raises Unauthorized, Forbidden or TooManyFailures."""
        identity = self._service.authenticator.recognise(secret.encode("utf-8", "surrogateescape"), address)
        identity.check("admin")
        if identity.name is None:
            raise Unauthorized("no key is needed here")
        token = new_token()
        steps = self._service.engine.verbs.sign_in(_digest(token), identity.name, identity.digest, LIFETIME_MS)
        await self._service.ask(steps, identity.actor)
        return Visitor(token, identity, True, visitor.is_local)

    async def log_out(self, visitor: Visitor) -> Visitor:
        if visitor.identity is not None and visitor.identity.name is not None:
            await self._service.ask(self._service.engine.verbs.sign_out(_digest(visitor.token)), visitor.identity.actor)
            self.ended += 1
        return Visitor(new_token(), None, True, visitor.is_local)

    async def _find(self, token: str) -> Identity | None:
        """A session ends when its key is revoked or loses the scope admin."""
        found: Any = await self._service.look(self._service.engine.insights.session, _digest(token))
        if found is None:
            return None
        name, digest, expires_at = found
        if expires_at <= self._service.engine.clock.now():
            return None
        identity = self._service.authenticator.known(name, bytes(digest))
        return identity if identity is not None and identity.may("admin") else None


def new_token() -> str:
    return secrets.token_urlsafe(32)


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _read(scope: asgi.Scope) -> tuple[bytes | None, str | None]:
    host = token = None
    for name, value in scope["headers"]:
        if name == b"host":
            host = value
        elif name == b"cookie" and (found := _COOKIE.search(value)):
            token = found[1].decode()
    return host, token
