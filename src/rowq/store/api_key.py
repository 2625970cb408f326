"""API keys of the server: create, list, revoke. Only the digest of a secret is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from rowq.errors import InvalidArgument, NotFound
from rowq.model.access import ApiKey
from rowq.store.dialect import Session
from rowq.store.transaction import Transaction


def create(tx: Transaction, key: ApiKey, digest: bytes) -> None:
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


def revoke(tx: Transaction, name: str) -> None:
    if not tx.session.run("delete_api_key", name=name):
        raise NotFound(f"there is no key {name!r} in the database: it was revoked, or it is set in the server's configuration")
    audit(tx, "key_revoked", name=name)


def read_keys(session: Session) -> list[tuple[ApiKey, bytes]]:
    return [
        (ApiKey(name=name, scopes=tuple(_list(scopes)), queues=tuple(_list(queues)), created_at=created_at), bytes(digest))
        for name, digest, scopes, queues, created_at in session.rows("read_api_keys")
    ]


def audit(tx: Transaction, event: str, **detail: Any) -> None:
    """Belongs to no queue and is written even when queues have no audit: changes of access are always recorded."""
    tx.changes["insert_audit"].append((tx.now, "", None, event, None, tx.actor, _json(detail)))
    tx.flush()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _list(text: str) -> list[Any]:
    found: list[Any] = msgspec.json.decode(text)
    return found
