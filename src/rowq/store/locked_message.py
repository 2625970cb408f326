"""Messages whose state row this transaction has locked, with everything that the lifecycle rules need."""

from __future__ import annotations

import msgspec

from rowq.ids import message_id
from rowq.model.lifecycle import Standing
from rowq.model.message import State
from rowq.model.retry import Backoff
from rowq.store.dialect import Session
from rowq.store.retry import TryAgain

_QUERIES = {
    State.READY: "hold_ready",
    State.SCHEDULED: "hold_scheduled",
    State.BLOCKED: "hold_blocked",
    State.LEASED: "hold_leased",
    State.DEAD: "hold_dead",
}

_MOST_LOOKS = 50

_backoff = msgspec.json.Decoder(Backoff)


class LockedMessage(msgspec.Struct):
    """`place` depends on the state: the position if ready, the due time if scheduled, blocked or dead, the end of the lease if leased."""

    state: State
    seq: int
    queue: str
    sent_at: int
    message_key: str | None
    group_key: str | None
    priority: int
    ttl_ms: int | None
    deadline_ms: int | None
    max_attempts: int | None
    backoff: bytes | None
    kv_keys: bytes | None
    own_id: str | None
    marks: int
    attempts: int
    expires_at: int | None
    error: str | None
    place: int | None
    reason: str | None
    redeliveries: int
    died_at: int | None
    consumer: str | None
    leased_at: int | None

    @property
    def id(self) -> str:
        return self.own_id or message_id(self.seq, self.sent_at)

    @property
    def deadline(self) -> int | None:
        return None if self.deadline_ms is None else self.sent_at + self.deadline_ms

    @property
    def deliveries(self) -> int:
        """A dead letter counts its deliveries separately."""
        return self.attempts if self.reason is None else self.redeliveries

    @property
    def standing(self) -> Standing:
        return Standing(
            self.attempts,
            self.expires_at,
            self.error,
            self.reason,
            self.redeliveries,
            self.ttl_ms,
            self.deadline,
            self.max_attempts,
            None if self.backoff is None else _backoff.decode(self.backoff),
        )


def hold(session: Session, seqs: list[int], *states: State) -> list[LockedMessage]:
    """Locks those of the messages that are in one of the states."""
    if not seqs:
        return []
    held = [LockedMessage(state, *row) for state in states for row in session.rows(_QUERIES[state], seqs=seqs)]
    if State.READY in states and len(held) < len(seqs):
        held += [LockedMessage(State.READY, *row) for row in session.rows("hold_ready_moved", seqs=seqs)]
    return held


def hold_leased(session: Session, seqs: list[int]) -> list[LockedMessage]:
    return [LockedMessage(State.LEASED, *row) for row in session.rows("hold_leased", seqs=seqs)]


def hold_waiting(session: Session, seqs: list[int]) -> list[LockedMessage]:
    return _hold_all(session, seqs, "find_waiting", State.BLOCKED, State.SCHEDULED, State.READY)


def hold_anywhere(session: Session, seqs: list[int]) -> list[LockedMessage]:
    return _hold_all(session, seqs, "find_unfinished", State.BLOCKED, State.SCHEDULED, State.READY, State.LEASED, State.DEAD)


def _hold_all(session: Session, seqs: list[int], find: str, *states: State) -> list[LockedMessage]:
    """Looks at the states in the order in which messages usually move, so that a message moved meanwhile is found in a later state.

    A message that is moved back or rewritten may still be missed: if `find` says that it exists, it is looked for again."""
    held = hold(session, seqs, *states)
    for _ in range(0 if session.is_alone else _MOST_LOOKS):
        missed = set(seqs) - {one.seq for one in held}
        astray = [row[0] for row in session.rows(find, seqs=sorted(missed))] if missed else []
        if not astray:
            return held
        held += hold(session, astray, *states)
    if session.is_alone:
        return held
    raise TryAgain("messages move faster than they can be locked; nothing was written: try again")


def lock_keys(session: Session, queue: str, keys: list[str]) -> dict[str, int]:
    """Locks the keys, given in order; returns the message last known to wait under each."""
    if not session.is_alone:
        session.many("reserve_key", ("queue", "message_key"), [(queue, key) for key in keys])
    return {key: seq for key, seq in session.rows("lock_waiting_keys", queue=queue, keys=keys) if seq}


def lock_groups(session: Session, queue: str, groups: list[str]) -> dict[str, int]:
    """Locks the groups, given in order; returns the head of each group that has one."""
    if not session.is_alone:
        session.many("reserve_group", ("queue", "group_key"), [(queue, group) for group in groups])
    return {group: head for group, head in session.rows("lock_group_heads", queue=queue, groups=groups) if head}
