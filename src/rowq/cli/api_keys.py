"""API keys of the server: create, list, revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from rowq.cli.command import Session
from rowq.cli.output import Column
from rowq.cli.terminal import hint
from rowq.cli.text import moment

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the key: its owner or its purpose.", show_default=False)]


def create(
    session: Session,
    name: Name,
    scope: Annotated[list[str], typer.Option("--scope", help="What it may do: send, receive, admin or metrics; may be repeated.")],
    queue: Annotated[
        list[str] | None, typer.Option("--queue", metavar="PATTERN", help="The queues it may use: orders or 'orders.*'; may be repeated.")
    ] = None,
) -> None:
    """Create a key and print its secret, which is shown only once.

    Receive includes browsing messages, admin includes everything. Without --queue the key is valid for all queues.
    """
    queues = queue or ["*"]
    with session.connect(create=True) as broker:
        secret = broker.create_key(name, scopes=scope, queues=queues)
    session.output.answer(secret, name=name, scopes=scope, queues=queues, secret=secret)
    if not session.output.json:
        hint("save it now: it is shown only once, and only its digest is stored")


def list_keys(session: Session) -> None:
    """List the keys in the database, not those in the server's configuration."""
    with session.connect() as broker:
        keys = broker.api_keys()
    columns = (Column("name", style="cyan"), Column("scopes"), Column("queues", flexible=True), Column("created"))
    session.output.listing(
        keys, columns, lambda key, now: [key.name, ", ".join(key.scopes), ", ".join(key.queues), moment(key.created_at, now)]
    )


def revoke(session: Session, name: Name) -> None:
    """Revoke a key; running servers stop accepting it within two seconds."""
    with session.connect() as broker:
        broker.revoke_key(name)
    session.output.answer(f"{name} is revoked", name=name, revoked=True)
