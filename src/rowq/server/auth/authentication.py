"""Authentication: who sends a request, and what they may do. It runs on every request, so it reads the headers once and looks up once.

Without keys the server only listens on this machine and requires no credentials; instead, a request's Host must be a local name, which
keeps out other sites' pages that are open in a browser on this machine. With keys it takes `X-API-Key`, `Authorization: Bearer`,
`Authorization: Basic` (the key's name and its secret), and for GET `?token=`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any, get_args

from rowq.clock import SystemClock
from rowq.errors import Forbidden, Unauthorized
from rowq.model.access import ApiKey, KnownKey, Right, allows, reaches
from rowq.server.auth.lockout import Lockout
from rowq.server.auth.loopback import is_local_host, is_local_origin
from rowq.server.auth.token import Tokens, token_in

_log = logging.getLogger("rowq.server.auth")

REFRESH_EVERY = 1.0
Scope = Mapping[str, Any]
_RIGHTS: tuple[Right, ...] = get_args(Right)


_OTHER_SITES = (b"cross-site", b"same-site")
"""How a browser marks a request by another site's page, even without an Origin: a GET, such as an image's, can lease messages too."""


class Identity:
    """The sender of a request. Created once per key, and shared by all its requests."""

    __slots__ = ("_key", "_rights", "actor", "digest", "name", "sees_all")

    def __init__(self, key: ApiKey | None, digest: bytes = b"") -> None:
        self._key = key
        self.digest = digest
        self.name = None if key is None else key.name
        self.actor = None if key is None else f"key:{key.name}"
        """The name in the audit."""
        self.sees_all = key is None or key.sees_all
        """`reaches` is true for every queue, so nothing has to be filtered."""
        self._rights = frozenset(right for right in _RIGHTS if key is None or allows(key, right))

    def check(self, right: Right, queue: str | None = None) -> None:
        """Raises Forbidden. Without a queue only the scope is checked: the caller must then apply `reaches` or `sees_all`."""
        if right not in self._rights:
            scope = "receive or admin" if right == "look" else right
            raise Forbidden(f"the key {self.name!r} may not do this: it needs the scope {scope}")
        if queue is not None and not self.sees_all and not self.reaches(queue):
            raise Forbidden(f"the key {self.name!r} may not access the queue {queue!r}: none of its patterns matches that name")

    def may(self, right: Right) -> bool:
        return right in self._rights

    def reaches(self, queue: str) -> bool:
        return self._key is None or reaches(self._key, queue)


ANONYMOUS = Identity(None)
"""Every client of a server without keys."""


Admit = Callable[[tuple[str, int] | None], Identity]
"""Takes the client's address and port."""


class Authenticator:
    """`keys` are those of the configuration; `read` returns those of the database, which may change while the server runs."""

    def __init__(
        self,
        keys: Iterable[KnownKey] = (),
        read: Callable[[], list[KnownKey]] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._own = list(keys)
        self._read = read
        self._lockout = Lockout(monotonic)
        self._tokens = Tokens(now or SystemClock().now)
        self._by_digest: dict[bytes, Identity] = {}
        self._by_name: dict[str, Identity] = {}
        self._hidden: set[str] = set()
        self._is_open = True
        self.learn([])

    @property
    def is_open(self) -> bool:
        """No key has ever been known, so none is required. After the first key it stays closed, even if the last one is revoked."""
        return self._is_open

    def shut(self) -> None:
        """From now on every request needs a key, even while there is none."""
        self._is_open = False

    def admit(self, scope: Scope) -> Identity:
        """Raises Unauthorized, Forbidden or TooManyFailures."""
        if self._is_open:
            return admit_local(scope)
        client = scope.get("client")
        address = client[0] if client else ""
        self._lockout.check(address)
        user, secret = _read_headers(scope["headers"])
        if secret is None:
            return self._admit_without_header(scope)
        identity = self._recognise(secret, user, address)
        if user is not None:
            check_own_page(scope)
        return identity

    def remember(self, scope: Scope) -> Admit | None:
        """What admits a client that repeats these headers, from any address, as `admit` would; None if only `admit` does.

        It remembers the digest of the key, not its identity: a key may be revoked or changed at any moment."""
        if self._is_open:
            try:
                admit_local(scope)
            except Forbidden:
                return None
            return lambda client: self.admit({**scope, "client": client})
        user, secret = _read_headers(scope["headers"])
        if secret is None or user is not None:
            return None
        digest = sha256(secret).digest()
        return partial(self._admit_again, digest) if digest in self._by_digest else None

    def _admit_again(self, digest: bytes, client: tuple[str, int] | None) -> Identity:
        address = client[0] if client else ""
        self._lockout.check(address)
        return self._identify(digest, None, address)

    def recognise(self, secret: bytes, address: str) -> Identity:
        """The identity with this secret, for a login from that address. Raises Unauthorized or TooManyFailures."""
        self._lockout.check(address)
        return self._recognise(secret, None, address)

    def known(self, name: str, digest: bytes) -> Identity | None:
        """The identity of the key with that name, if it is still the same key."""
        identity = self._by_name.get(name)
        return identity if identity is not None and hmac.compare_digest(identity.digest, digest) else None

    def holds(self, identity: Identity) -> bool:
        """Whether an admitted identity would still be admitted; for long-lived requests."""
        if identity.name is None:
            return self._is_open
        return self._by_digest.get(identity.digest) is identity

    def issue_token(self, identity: Identity) -> tuple[str, int]:
        """A token with the key's rights, for GET and for a minute, and its expiry."""
        return self._tokens.issue(identity.name or "", identity.digest)

    def learn(self, stored: list[KnownKey]) -> None:
        """Replaces the known keys; a key of the configuration takes precedence over one of the same name in the database.

        The same secret in both is a client's key that got into the server's environment: it has only the rights of the database's key.
        """
        by_name: dict[str, Identity] = {}
        for key, digest in (*self._own, *stored):
            if key.name not in by_name:
                by_name[key.name] = self._kept(key, digest)
            elif key.name not in self._hidden:
                self._hidden.add(key.name)
                _log.warning("the key %r of the database is ignored: the configuration has one of that name", key.name)
        self._by_name = by_name
        self._by_digest = {identity.digest: identity for identity in by_name.values()}
        for key, digest in self._own:
            if (other := self._by_digest[digest].name) != key.name and key.name not in self._hidden:
                self._hidden.add(key.name)
                _log.warning("the key %r of the configuration has the secret of %r in the database, whose rights apply", key.name, other)
        if by_name:
            self._is_open = False

    async def refresh(self) -> None:
        """Reads the keys of the database now, so that a key created or revoked through this server takes effect at once."""
        if self._read is not None:
            self.learn(await asyncio.to_thread(self._read))

    async def watch(self, every: float = REFRESH_EVERY) -> None:
        """Runs until it is cancelled. It reads in its own thread, since long answers may occupy the shared ones."""
        if self._read is None:
            return
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="rowq-keys") as thread:
            while True:
                await asyncio.sleep(every)
                try:
                    self.learn(await loop.run_in_executor(thread, self._read))
                except Exception as error:
                    _log.warning("the keys could not be read; the known ones stay valid: %s", error)

    def _recognise(self, secret: bytes, user: bytes | None, address: str) -> Identity:
        return self._identify(sha256(secret).digest(), user, address)

    def _identify(self, digest: bytes, user: bytes | None, address: str) -> Identity:
        identity = self._by_digest.get(digest)
        if identity is None or not hmac.compare_digest(identity.digest, digest) or (user is not None and not _is_named(identity, user)):
            self._lockout.failed(address)
            raise Unauthorized("this key is not known: it was mistyped or revoked")
        return identity

    def _kept(self, key: ApiKey, digest: bytes) -> Identity:
        """The existing identity if nothing has changed, so that identities are not recreated every second."""
        known = self._by_name.get(key.name)
        return known if known is not None and known.digest == digest and known._key == key else Identity(key, digest)

    def _admit_without_header(self, scope: Scope) -> Identity:
        """By a token in the URL."""
        query = scope["query_string"]
        if query and scope["method"] == "GET" and b"token=" in query:
            token = token_in(query)
            name = None if token is None else self._tokens.read(token, self._digest_of)
            if name is None:
                raise Unauthorized("this token is not known or has expired: get another one from POST /v1/tokens")
            return self._by_name[name]
        raise Unauthorized(
            "a key is needed: send it as X-API-Key, or as Authorization: Bearer; `rowq keys create NAME --scope admin` creates one"
        )

    def _digest_of(self, name: str) -> bytes | None:
        identity = self._by_name.get(name)
        return None if identity is None else identity.digest


def _read_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes | None, bytes | None]:
    """(name, secret) for Basic, (None, secret) for other credentials; (None, None) without any."""
    authorization = b""
    for name, value in headers:
        if name == b"x-api-key":
            return None, value
        if name == b"authorization":
            authorization = value
    return _read_authorization(authorization) if authorization else (None, None)


def _read_authorization(header: bytes) -> tuple[bytes | None, bytes | None]:
    """(name, secret) for Basic, (None, secret) for Bearer; (None, None) for unknown schemes."""
    kind, _, given = header.partition(b" ")
    match kind.lower():
        case b"bearer":
            return None, given.strip()
        case b"basic":
            try:
                user, _, secret = base64.b64decode(given.strip(), validate=True).partition(b":")
            except (binascii.Error, ValueError):
                return None, b""
            return user, secret
    return None, None


def _is_named(identity: Identity, user: bytes) -> bool:
    return identity.name is not None and hmac.compare_digest(identity.name.encode(), user)


def admit_local(scope: Scope) -> Identity:
    has_host = False
    for name, value in scope["headers"]:
        if name == b"host":
            has_host = True
            if not is_local_host(value):
                raise Forbidden("without keys this server answers to localhost only: use that name, or give the server a key")
        elif (name == b"origin" and not is_local_origin(value)) or (name == b"sec-fetch-site" and value in _OTHER_SITES):
            raise Forbidden("without keys this server does not answer pages of other sites: give the server a key")
    if not has_host:
        raise Forbidden("without keys this server answers to localhost only, and this request names no host")
    return ANONYMOUS


def check_own_page(scope: Scope) -> None:
    """A browser adds Basic credentials by itself, also to requests of another site's page; other credentials are only added on purpose."""
    host = origin = site = None
    for name, value in scope["headers"]:
        if name == b"host":
            host = value
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            site = value
    if site in _OTHER_SITES or (origin is not None and origin.partition(b"://")[2] != host):
        raise Forbidden("a page of another site sent this in your name; programs send a key as X-API-Key, or as Authorization: Bearer")
