"""Login sessions of the admin pages: created at login, looked up for each request, removed at logout or when they expire."""

from __future__ import annotations

from typing import NamedTuple

from rowq.store.api_key import audit
from rowq.store.dialect import Row, Session
from rowq.store.transaction import Transaction

MOST = 1_000
"""Sessions per key; the oldest are removed first. A script that logs in repeatedly cannot fill the disk."""


class SignedIn(NamedTuple):
    """`key_digest` is that of the secret used at login: a new key under the same name is a different key."""

    key_name: str
    key_digest: bytes
    expires_at: int


def open(tx: Transaction, digest: bytes, key_name: str, key_digest: bytes, expires_at: int) -> None:
    retire(tx, MOST)
    _remove(tx, tx.session.rows("list_surplus_sessions", key_name=key_name, offset=MOST - 1, limit=MOST))
    values = {"key_name": key_name, "key_digest": key_digest, "created_at": tx.now, "expires_at": expires_at}
    tx.session.write("insert_session", digest=digest, **values)
    audit(tx, "signed_in", key=key_name)


def close(tx: Transaction, digest: bytes) -> None:
    """A session that no longer exists is ignored."""
    signed_in = find(tx.session, digest)
    if signed_in is not None and tx.session.run("delete_session", digest=digest):
        audit(tx, "signed_out", key=signed_in.key_name)


def find(session: Session, digest: bytes) -> SignedIn | None:
    """The caller checks whether it has expired."""
    row = session.row("find_session", digest=digest)
    return None if row is None else SignedIn(row[0], bytes(row[1]), row[2])


def retire(tx: Transaction, limit: int) -> int:
    """Removes expired sessions."""
    rows = tx.session.rows("list_ended_sessions", now=tx.now, limit=limit)
    _remove(tx, rows)
    return len(rows)


def _remove(tx: Transaction, rows: list[Row]) -> None:
    """Sorted, so that locks are taken in one order."""
    if rows:
        tx.session.many("delete_session", ("digest",), sorted((bytes(row[0]),) for row in rows))
