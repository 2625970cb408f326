"""Redrives or deletes dead letters that an operator selected, in batches of one transaction each."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

import msgspec

from rowq.errors import MessageNotFound
from rowq.ids import message_id
from rowq.model import lifecycle
from rowq.model.failure import matches
from rowq.model.message import State, Where
from rowq.model.page import Page
from rowq.store import groups
from rowq.store.locked_message import LockedMessage, hold
from rowq.store.lookup import only, seqs_of
from rowq.store.operate import remove
from rowq.store.read import match_dead
from rowq.store.transaction import Transaction
from rowq.store.transition import move


class Chosen(msgspec.Struct, frozen=True):
    """One batch of the selected dead letters: those that match both the ids and the filter, and are not leased."""

    event: ClassVar[str]
    """The event in the audit."""

    queue: str
    ids: list[str] | None
    where: Where
    after: int
    limit: int

    def __call__(self, tx: Transaction) -> tuple[int, int | None]:
        """Returns how many were treated, and where to continue: a position among the ids, or a seq; None at the end."""
        seqs, after = self._seqs_of_ids(tx) if self.ids is not None else self._seqs_of_filter(tx)
        named = None if self.ids is None else set(self._piece)
        held = [one for one in hold(tx.session, seqs, State.DEAD) if self._is_meant(one, named)] if seqs else []
        self._treat(tx, held)
        groups.promote_next(tx)
        return len(held), after

    def _treat(self, tx: Transaction, held: list[LockedMessage]) -> None:
        raise NotImplementedError

    def _is_meant(self, one: LockedMessage, named: set[str] | None) -> bool:
        """Checks again: an id of another database may carry the same seq, and a dead letter may have been redriven and died again."""
        if one.queue != self.queue or not (named is None or one.own_id in named or message_id(one.seq, one.sent_at) in named):
            return False
        return matches(self.where, one.reason, one.error, one.message_key, one.group_key, one.died_at)

    @property
    def _piece(self) -> list[str]:
        return (self.ids or [])[self.after : self.after + self.limit]

    def _seqs_of_ids(self, tx: Transaction) -> tuple[list[int], int | None]:
        piece = self._piece
        seqs: list[int] = []
        for id in piece:
            with suppress(MessageNotFound):
                seqs.extend(seqs_of(tx.session, id, only(self.queue)))
        return sorted(seqs), self.after + len(piece) if len(piece) == self.limit else None

    def _seqs_of_filter(self, tx: Transaction) -> tuple[list[int], int | None]:
        page = Page(queue=self.queue, state=State.DEAD, **msgspec.structs.asdict(self.where))
        seqs, place = match_dead(tx.session, page, (0, self.after), self.limit)
        return seqs, None if place is None else place[1]


class Redrive(Chosen, frozen=True):
    """Puts dead letters back into their queue with the same id and place, as if new."""

    event: ClassVar[str] = "dead_redriven"

    def _treat(self, tx: Transaction, held: list[LockedMessage]) -> None:
        for one in held:
            tx.audit(self.queue, one.seq, "redriven", detail=one.reason)
            move(tx, one, lifecycle.after_redrive(one.standing, tx.policy(self.queue), tx.now))
        tx.policies.known(tx.session, self.queue).depth_bound = None  # the queue now holds more messages than were counted
        tx.has_redriven = True


class Deletion(Chosen, frozen=True):
    """Deletes dead letters permanently."""

    event: ClassVar[str] = "dead_deleted"

    def _treat(self, tx: Transaction, held: list[LockedMessage]) -> None:
        for one in held:
            remove(tx, one, "deleted")


def note(tx: Transaction, count: int, *, queue: str, event: str) -> None:
    """Audits the operator's action as a whole, in addition to the line of each message."""
    if count:
        tx.audit(queue, None, event, detail=f"{count} dead letter{'' if count == 1 else 's'}")
        tx.flush()
