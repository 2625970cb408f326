"""From a public id to a seq, and back to be sure: a caller's own id is looked up, one of ours carries its seq."""

from __future__ import annotations

from rowq.errors import MessageNotFound
from rowq.ids import message_id, origin_of
from rowq.model.text import check_text
from rowq.store.dialect import Session


def check_id(id: object) -> str:
    return check_text(id, "an id")


def seq_of(session: Session, id: str) -> int:
    if (row := session.row("find_own_id", id=check_id(id))) is not None:
        return int(row[0])
    if (origin := origin_of(id)) is not None:
        return origin.seq
    raise not_found(id)


def is_named(id: object, own_id: str | None, seq: int, sent_at: int) -> bool:
    """An id of another database may carry the same seq: the millisecond tells."""
    return id in (own_id, message_id(seq, sent_at))


def not_found(id: object) -> MessageNotFound:
    return MessageNotFound(f"there is no message {id!r}: it was acked, deleted or purged, or never sent to this database")
