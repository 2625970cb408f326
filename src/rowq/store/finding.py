"""From a public id to a seq, and back to be sure: a caller's own id is looked up, one of ours carries its seq."""

from __future__ import annotations

from difflib import get_close_matches

from rowq.errors import MessageNotFound, QueueNotFound
from rowq.ids import message_id, origin_of
from rowq.model.text import check_text
from rowq.store.dialect import Session

MOST_NAMES = 10_000
"""Names of queues that are read to find the one that may have been meant."""
_MOST_ALIKE = 500


def insist_on_queue(session: Session, queue: str, *, names: bool = True) -> None:
    """Raises QueueNotFound: a verb for a queue that does not exist would answer "done" to a typing error. Messages that another process
    sent just after the queue was deleted are there before its row is written anew. `names`: with those that are alike."""
    if session.row("read_settings", queues=[queue]) is None and not any(session.rows("count_states", queue=queue)[0][:-1]):
        known = [row[0] for row in session.rows("list_queue_names", limit=MOST_NAMES)] if names else []
        raise QueueNotFound(f"there is no queue {queue!r}: nothing was ever sent to it or set on it", _alike(queue, known))


def _alike(queue: str, names: list[str]) -> list[str]:
    """Names of about the same length and the same letters come first: comparing takes a millisecond for twenty names."""
    letters = set(queue)
    near = sorted(names, key=lambda name: len(letters ^ set(name)) + abs(len(name) - len(queue)))
    return get_close_matches(queue, near[:_MOST_ALIKE], n=3)


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
