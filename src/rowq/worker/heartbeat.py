"""A consumer's registration: kept alive by heartbeats, and renewed when it was considered dead."""

from __future__ import annotations

import logging
import time

from rowq.engine.engine import Engine
from rowq.engine.operation import Operation
from rowq.errors import ConsumerGone
from rowq.model.member import Membership, Share
from rowq.worker.plan import Plan

_log = logging.getLogger("rowq.workers")


class Heartbeat:
    """Used by the one thread that keeps it; others only read."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._verbs = engine.verbs
        self._plan = plan
        self._membership: Membership | None = None
        self._heard_at = self._next_at = 0.0
        self._beats = 0

    @property
    def membership(self) -> Membership | None:
        """None while it may be considered dead: it must not receive anything then."""
        membership = self._membership
        return membership if membership is not None and time.monotonic() - self._heard_at < self._plan.dead_after else None

    def knows(self, id: str) -> bool:
        """Whether that is still its id."""
        membership = self.membership
        return membership is not None and membership.id == id

    @property
    def next_at(self) -> float:
        return self._next_at

    def share(self) -> Share | None:
        membership = self._membership if self._plan.partitioned else None
        return None if membership is None or membership.count == 1 else (membership.index, membership.count)

    def keep(self) -> Operation[None]:
        """Registers, or sends a heartbeat; called when due. The silence is counted from before the heartbeat, which may take long."""
        began = time.monotonic()
        if self._membership is not None and self.membership is None:
            yield from self.leave()
        if self._membership is None:
            self._membership = yield self._verbs.register(self._plan.queue, self._plan.dead_after)
        else:
            yield from self._beat(self._membership.id)
        self._heard_at = began
        self._next_at = began + self._plan.beat

    def leave(self) -> Operation[None]:
        membership, self._membership = self._membership, None
        if membership is not None:
            yield self._verbs.unregister(self._plan.queue, membership.id)

    def _beat(self, id: str) -> Operation[None]:
        self._beats += 1
        removes = self._beats % self._plan.remove_dead_every == 0
        try:
            self._membership = yield self._verbs.beat(self._plan.queue, id, self._plan.dead_after, removes)
        except ConsumerGone:
            _log.warning("consumer %s of %s was considered dead, and registers again", id, self._plan.queue)
            self._membership = None
            self._membership = yield self._verbs.register(self._plan.queue, self._plan.dead_after)
