"""A queue's door in SQL: peq install."""

from __future__ import annotations

from typing import Annotated

import typer

from rowq.cli.command import Session
from rowq.connect import make_door


def install(
    session: Session,
    schema: Annotated[
        str, typer.Argument(metavar="SCHEMA", help="The schema to make, and the queue of the same name.", show_default=False)
    ],
) -> None:
    """Make the procedures of PEQ for a queue, in a schema of its name.

    They work on the tables of rowq: what enqueue sends is received by everybody, and dequeue hands out what anybody sent.
    Again after an upgrade, to bring them up to this release. It needs a database on PostgreSQL.
    """
    make_door(session.url, schema)
    session.output.answer(f"the procedures of the queue {schema} are in the schema {schema}", schema=schema, queue=schema)
