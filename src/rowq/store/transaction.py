"""One transaction at work: its session, its moment, what it is going to write, and whom to wake once that is on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec

from rowq.model.queue import Policy
from rowq.store.changes import Changes
from rowq.store.dialect import Session
from rowq.store.head_hint import Heads
from rowq.store.meter import Tally
from rowq.store.notify.notifier import Place
from rowq.store.policy import Policies


class Look(msgspec.Struct):
    """A look at what has fallen due: from which time on, and what came of it."""

    floor: int
    is_cheap: bool = True
    next: int | None = None
    took_ms: int = 0
    is_complete: bool = False
    """Nothing that is due was left behind."""


class Transaction:
    tally: Tally | None = None
    """What is counted, where somebody counts (see rowq/store/meter.py)."""

    def __init__(
        self,
        session: Session,
        policies: Policies,
        now: int,
        random: Callable[[], float],
        actor: str | None,
        news: Callable[[], int],
        heads: Heads,
        clock: Callable[[], int],
    ) -> None:
        """`now` is the moment of the whole transaction; `clock` goes on."""
        self.session = session
        self.heads = heads
        self.clock = clock
        self.has_redriven = False
        self.news = news
        self.policies = policies
        self.now = now
        self.random = random
        self.actor = self.own_actor = actor
        self.changes = Changes()
        self.has_changed_settings = False
        self._known: dict[str, Policy] = {}
        self.woken: defaultdict[str, int] = defaultdict(int)
        """How many messages have become ready, by topic (a queue, or a queue's dead letters)."""
        self.due: dict[str, int] = {}
        """When a topic will have something without anybody sending, as far as this transaction learned."""
        self.lowest: dict[str, Place] = {}
        """The lowest place in each queue where a message has become ready."""
        self.looked: dict[str, Look] = {}
        """Topics whose times were looked up in this transaction."""
        self.delivered: defaultdict[str | None, list[int]] = defaultdict(list)
        """Leased in this transaction, and not in the audit yet: by whom."""
        self.leaving: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → messages on their way out, whose successors are called up by `groups.call_up`."""
        self.returning: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        """(queue, group) → heads that come back, and step back where an older message of the group waits."""

    def policy(self, queue: str) -> Policy:
        """What holds for the queue now; `forget_policy` after changing it."""
        known = self._known.get(queue)
        if known is None:
            known = self._known[queue] = self.policies.of(self.session, queue)
        return known

    def act_for(self, actor: str | None) -> None:
        """What is audited from here on is that caller's doing."""
        self.actor = actor or self.own_actor

    def change_settings(self) -> None:
        self.policies.changed(self.session)
        self.has_changed_settings = True

    def forget_policy(self, queue: str) -> None:
        self._known.pop(queue, None)

    def flush(self) -> None:
        self.changes.write(self.session)

    def audit(self, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None) -> None:
        self.audit_as(self.actor, queue, seq, event, attempt, detail)

    def audit_as(
        self, actor: str | None, queue: str, seq: int | None, event: str, attempt: int | None = None, detail: str | None = None
    ) -> None:
        if self.tally is not None and seq is not None:
            self.tally.counts[queue, event] += 1
        if self.policy(queue).audit:
            self.changes["insert_audit"].append((self.now, queue, seq, event, attempt, actor, detail))

    def ready_at(self, queue: str, ranking: int, position: int, count: int = 1) -> None:
        """So many have become ready, none of them before that place."""
        self.woken[queue] += count
        known, place = self.lowest.get(queue), (ranking, position)
        if known is None or place < known:
            self.lowest[queue] = place

    def wakes_at(self, topic: str, due: int) -> None:
        known = self.due.get(topic)
        if known is None or due < known:
            self.due[topic] = due
