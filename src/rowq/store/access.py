"""Access to the server: its API keys, of which only digests are stored, and the login sessions of the admin pages."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rowq.errors import InvalidArgument, NotFound
from rowq.model.access import ApiKey
from rowq.store.dialect import Row, Session
from rowq.store.transaction import Transaction

MOST_SESSIONS = 1_000
"""Sessions per key; the oldest are removed first. A script that logs in repeatedly cannot fill the disk."""


def create_key(tx: Transaction, key: ApiKey, digest: bytes) -> None:
    made = tx.session.run(
        "insert_api_key",
        name=key.name,
        digest=digest,
        scopes=_json(key.scopes),
        queues=_json(key.queues),
        created_at=key.created_at,
    )
    if not made:
        raise InvalidArgument(f"there is a key {key.name!r} already: choose another name, or revoke that one first")
    audit(tx, "key_created", name=key.name, scopes=key.scopes, queues=key.queues)


def revoke_key(tx: Transaction, name: str) -> None:
    if not tx.session.run("delete_api_key", name=name):
        raise NotFound(f"there is no key {name!r} in the database: it was revoked, or it is set in the server's configuration")
    audit(tx, "key_revoked", name=name)


def read_keys(session: Session) -> list[tuple[ApiKey, bytes]]:
    return [
        (ApiKey(name=name, scopes=tuple(_list(scopes)), queues=tuple(_list(queues)), created_at=created_at), bytes(digest))
        for name, digest, scopes, queues, created_at in session.rows("read_api_keys")
    ]


class SignedIn(NamedTuple):
    """`key_digest` is that of the secret used at login: a new key under the same name is a different key."""

    key_name: str
    key_digest: bytes
    expires_at: int


def sign_in(tx: Transaction, digest: bytes, key_name: str, key_digest: bytes, expires_at: int) -> None:
    retire_sessions(tx, MOST_SESSIONS)
    _remove(tx, tx.session.rows("list_surplus_sessions", key_name=key_name, offset=MOST_SESSIONS - 1, limit=MOST_SESSIONS))
    values = {"key_name": key_name, "key_digest": key_digest, "created_at": tx.now, "expires_at": expires_at}
    tx.session.write("insert_session", digest=digest, **values)
    audit(tx, "signed_in", key=key_name)


def sign_out(tx: Transaction, digest: bytes) -> None:
    """A session that no longer exists is ignored."""
    signed_in = find_session(tx.session, digest)
    if signed_in is not None and tx.session.run("delete_session", digest=digest):
        audit(tx, "signed_out", key=signed_in.key_name)


def find_session(session: Session, digest: bytes) -> SignedIn | None:
    """The caller checks whether it has expired."""
    row = session.row("find_session", digest=digest)
    return None if row is None else SignedIn(row[0], bytes(row[1]), row[2])


def retire_sessions(tx: Transaction, limit: int) -> int:
    """Removes expired sessions."""
    rows = tx.session.rows("list_ended_sessions", now=tx.now, limit=limit)
    _remove(tx, rows)
    return len(rows)


def _remove(tx: Transaction, rows: list[Row]) -> None:
    """Sorted, so that locks are taken in one order."""
    if rows:
        tx.session.many("delete_session", ("digest",), sorted((bytes(row[0]),) for row in rows))


def audit(tx: Transaction, event: str, **detail: Any) -> None:
    """Belongs to no queue and is written even when queues have no audit: changes of access are always recorded."""
    tx.changes["insert_audit"].append((tx.now, "", None, event, None, tx.actor, _json(detail)))
    tx.flush()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _list(text: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(text)
    return found
