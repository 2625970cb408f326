"""Reads the messages of a copy from its source, in batches, each with its body and state."""

from __future__ import annotations

from typing import Any

import msgspec

from rowq.ids import message_id
from rowq.model.message import State
from rowq.store.dialect import Row, Session
from rowq.store.locked_message import LockedMessage

PIECE = 500
MOST_BYTES = 8 << 20
"""Payload bytes per batch, unless a single payload is larger."""

_PLACES = {
    "place_ready": State.READY,
    "place_ready_moved": State.READY,
    "place_scheduled": State.SCHEDULED,
    "place_blocked": State.BLOCKED,
    "place_leased": State.LEASED,
    "place_dead": State.DEAD,
}


class Exported(msgspec.Struct, frozen=True):
    """An unfinished message. `body` has the columns of `rowq_messages` in order."""

    body: Row
    held: LockedMessage


class FinishedLine(msgspec.Struct, frozen=True):
    """A finished message: its line in the history, and its body if that was kept."""

    line: Row
    body: Row | None

    @property
    def seq(self) -> int:
        return int(self.line[0])

    @property
    def queue(self) -> str:
        return str(self.line[1])

    @property
    def id(self) -> str:
        return self.line[-1] or message_id(self.seq, self.line[3])


def list_piece(session: Session, query: str, queues: list[str], after: int, last: int) -> list[Row]:
    """Rows after a number, each beginning with its number and queue; the total size of bodies is limited to MOST_BYTES."""
    rows = session.rows(query, queues=queues, after=after, last=last, limit=PIECE)
    if query not in ("list_bodies", "list_history"):
        return rows
    size = 0
    for count, row in enumerate(rows):
        size += row[2]
        if size > MOST_BYTES and count:
            return rows[:count]
    return rows


def id_of(listed: Row) -> str:
    """The public id in a row of `list_bodies` or `list_history`."""
    seq, sent_at, own_id = listed[3:]
    return own_id or message_id(seq, sent_at)


def read_messages(session: Session, seqs: list[int]) -> list[Exported]:
    """The messages as of one moment, in order, without those that are gone or finished."""
    bodies = {row[0]: row for row in session.rows("read_bodies", seqs=seqs)}
    places = {row[0]: (state, row) for query, state in _PLACES.items() for row in session.rows(query, seqs=seqs)}
    return [Exported(body, _held(body, *places[seq])) for seq, body in bodies.items() if seq in places]


def read_finished(session: Session, lines: list[int]) -> list[FinishedLine]:
    """Finished messages by the ids of their lines in the history."""
    return [FinishedLine(row[:13], None if row[13] is None else row[13:]) for row in session.rows("read_history", lines=lines)]


def _held(body: Row, state: State, place: Row) -> LockedMessage:
    seq, sent_at, queue, _, _, _, key, group, priority, _, ttl_ms, deadline_ms, max_attempts, backoff, kv_keys, own_id, _ = body
    rest: tuple[Any, ...] = place[1:]
    return LockedMessage(
        state, seq, queue, sent_at, key, group, priority, ttl_ms, deadline_ms, max_attempts, backoff, kv_keys, own_id, *rest
    )
