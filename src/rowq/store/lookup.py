"""Finds a message's seq by its public id: an own id, chosen by the caller, is looked up; an id made by rowq contains the seq.

An own id is unique in its queue. Without a queue, an id must name one message among all queues within the caller's reach."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from rowq.errors import AmbiguousId, MessageNotFound, QueueNotFound
from rowq.ids import message_id, origin_of
from rowq.model.queue import split_name
from rowq.model.text import check_text
from rowq.store.dialect import Session

MOST_NAMES = 10_000
"""Queue names that are searched for suggestions."""
_MOST_ALIKE = 500
_MOST_TOLD = 5

Reach = Callable[[str], bool]
"""Tells whether messages of a queue may be found."""


def insist_on_queue(session: Session, queue: str, *, names: bool = True) -> None:
    """Raises QueueNotFound for an unknown queue, so that a typo does not look like success. Messages that another process sent just after
    the queue was deleted exist before its row is written again. `names`: suggest similar names."""
    if session.row("read_settings", queues=[queue]) is None and not any(session.rows("count_states", queue=queue)[0][:-1]):
        known = [row[0] for row in session.rows("list_queue_names", limit=MOST_NAMES)] if names else []
        raise QueueNotFound(f"there is no queue {queue!r}: nothing was ever sent to it or set on it", _alike(queue, known))


def _alike(queue: str, names: list[str]) -> list[str]:
    """Compares only the names closest in length and characters: twenty comparisons take a millisecond."""
    letters = set(queue)
    near = sorted(names, key=lambda name: len(letters ^ set(name)) + abs(len(name) - len(queue)))
    return get_close_matches(queue, near[:_MOST_ALIKE], n=3)


def check_id(id: object) -> str:
    return check_text(id, "an id")


def only(queue: str | None) -> Reach:
    """The queue that a caller gives along with an id; all queues if it gives none."""
    if queue is None:
        return _everywhere
    name, _ = split_name(queue)
    return lambda other: other == name


def seq_of(session: Session, id: str, reach: Reach, *, with_gone: bool = True) -> int:
    """Raises MessageNotFound, and AmbiguousId if messages of several queues have the id. The message may be gone or in a queue outside
    the reach: check its row with `is_named`. Without `with_gone`, an existing message takes precedence over those that are gone."""
    found = seqs_of(session, id, reach)
    living = [seq for seq, (_, is_gone) in found.items() if not is_gone]
    if len(found) > 1 and (with_gone or len(living) != 1):
        raise ambiguous(id, sorted(queue for queue, _ in found.values()))
    return next(iter(found)) if len(found) == 1 else living[0]


def seqs_of(session: Session, id: str, reach: Reach) -> dict[int, tuple[str, bool]]:
    """The candidates by seq, with their queue and whether they are gone. An id made by rowq names that message alone, even if a caller
    had used the same text as an own id before."""
    own = {seq: (queue, gone_at is not None) for seq, queue, gone_at in session.rows("find_own_id", id=check_id(id)) if reach(queue)}
    origin = origin_of(id)
    if origin is None:
        if not own:
            raise not_found(id)
        return own
    made = session.rows("find_origins", seqs=[origin.seq]) if own else []
    is_made = any(at == origin.sent_at and own_id is None and reach(queue) for _, at, queue, own_id in made)
    return {origin.seq: ("", False)} if is_made or not own else own


def ambiguous(id: str, queues: list[str]) -> AmbiguousId:
    told = ", ".join(queues[:_MOST_TOLD]) + (", …" if len(queues) > _MOST_TOLD else "")
    return AmbiguousId(f"{len(queues)} queues have a message with the id {id!r} ({told}): name the queue (queue=, ?queue=, --in)")


def is_named(id: object, own_id: str | None, seq: int, sent_at: int) -> bool:
    """Compares the whole id: an id of another database may contain the same seq, but with another time."""
    return id in (own_id, message_id(seq, sent_at))


def _everywhere(queue: str) -> bool:  # noqa: ARG001  # the signature of Reach
    return True


def not_found(id: object) -> MessageNotFound:
    return MessageNotFound(f"there is no message {id!r}: it was acked, deleted or purged, or never sent here")
