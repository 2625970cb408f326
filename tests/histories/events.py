"""What may happen to a queue, as values: each does the same to the broker and to the model. Few values, so that they meet often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

import rowq
from rowq import Delivery, Draft, Outcome
from tests.histories.comparison import in_words_of_the_model, ms
from tests.histories.entry import Entry
from tests.histories.model import WAITING
from tests.histories.world import STATES, World

ROOM = 10
"""A receive takes up a handful of what has fallen due, and maintenance the rest. Histories stay below that, so that order is exact."""


class Event(Protocol):
    def happen(self, world: World) -> None: ...


@dataclass(frozen=True)
class Send:
    drafts: list[dict[str, Any]]

    def happen(self, world: World) -> None:
        if len(world.model.of(*WAITING, "leased", "dead")) > ROOM - len(self.drafts):
            return
        drafts = [{"payload": len(world.sent) + place, **draft} for place, draft in enumerate(self.drafts)]
        is_full = world.model.is_full_for([draft.get("key") for draft in drafts])
        try:
            if len(drafts) == 1:
                ids = [world.broker.send("q", **drafts[0])]
            else:
                ids = world.broker.send_many("q", [Draft(**draft) for draft in drafts])
        except rowq.QueueFull:
            assert is_full
            return
        assert not is_full or world.has_soft_limits
        for id, draft in zip(ids, drafts, strict=True):
            twin = world.model.twin(draft.get("key"))
            assert (id == twin.id) if twin else (id not in world.sent)
            world.model.send(id, **in_words_of_the_model(draft, world.clock.now()))
            world.sent.append(id)


@dataclass(frozen=True)
class Settlement:
    """What a consumer says about some deliveries."""

    verb: str
    delay: float | None = None
    counts: bool = True

    def say(self, world: World, deliveries: list[Delivery]) -> list[Outcome]:
        match self.verb:
            case "ack":
                return world.broker.ack_many(deliveries)
            case "reject":
                return world.broker.reject_many([delivery.receipt for delivery in deliveries], reason="no")
            case "reschedule":
                return world.broker.reschedule_many(deliveries, self.delay or 0)
        return world.broker.nack_many(deliveries, delay=self.delay, counts=self.counts)

    def apply(self, world: World, entry: Entry) -> None:
        match self.verb:
            case "ack":
                world.model.ack(entry)
            case "reject":
                world.model.reject(entry)
            case "reschedule":
                world.model.reschedule(entry, ms(self.delay or 0))
            case "nack":
                world.model.nack(entry, ms(self.delay), self.counts)


@dataclass(frozen=True)
class Transaction:
    """A consumer comes, takes some messages, and settles as many of them as it has verdicts."""

    queue: str
    most: int
    lease: float | None
    settlements: list[Settlement]

    def happen(self, world: World) -> None:
        for settlement, held in zip(self.settlements, world.receive(self.queue, self.most, self.lease), strict=False):
            outcomes = settlement.say(world, [held[0]])
            world.settle([held], outcomes, lambda entry, settlement=settlement: settlement.apply(world, entry))  # type: ignore[misc]


@dataclass(frozen=True)
class Settle:
    which: int
    settlement: Settlement

    def happen(self, world: World) -> None:
        chosen = world.chosen(self.which)
        outcomes = self.settlement.say(world, [delivery for delivery, _ in chosen])
        world.settle(chosen, outcomes, lambda entry: self.settlement.apply(world, entry))


@dataclass(frozen=True)
class Extend:
    which: int
    lease: float | None

    def happen(self, world: World) -> None:
        for delivery, number in world.chosen(self.which)[:1]:
            entry = world.model.entries.get(delivery.id)
            try:
                until = world.broker.extend(delivery, self.lease)
            except rowq.LeaseLost:
                assert not world.model.is_current(entry, number)
                return
            assert entry is not None and world.model.is_current(entry, number)
            world.model.extend(entry, ms(self.lease) or world.model.policy.lease_ms)
            assert until == entry.lease_until


@dataclass(frozen=True)
class Redrive:
    """All dead letters, or every second one."""

    all: bool

    def happen(self, world: World) -> None:
        chosen = world.model.of("dead")[:: 1 if self.all else 2]
        assert world.broker.redrive("q", ids=None if self.all else [entry.id for entry in chosen]) == len(chosen)
        world.model.redrive(chosen)


@dataclass(frozen=True)
class Purge:
    states: set[str] | None

    def happen(self, world: World) -> None:
        count = world.broker.purge("q", states=None if self.states is None else sorted(self.states))
        assert count == world.model.purge(*(WAITING if self.states is None else self.states))


@dataclass(frozen=True)
class Delete:
    which: int

    def happen(self, world: World) -> None:
        for id in world.sent[-1 - self.which % 8 :][:1]:
            entry = world.model.entries.get(id)
            try:
                world.broker.delete(id)
            except rowq.MessageNotFound:
                assert entry is None
                return
            assert entry is not None
            world.model.delete(entry)


@dataclass(frozen=True)
class Pause:
    """Nobody receives until it is over; leases and time run on."""

    seconds: float

    def happen(self, world: World) -> None:
        world.broker.pause("q")
        world.clock.advance(self.seconds)
        assert world.broker.receive("q", max=4) == []
        world.broker.resume("q")


@dataclass(frozen=True)
class Time:
    seconds: float

    def happen(self, world: World) -> None:
        world.clock.advance(self.seconds)


@dataclass(frozen=True)
class Maintain:
    def happen(self, world: World) -> None:
        world.broker.maintain()
        world.model.maintain()


@dataclass(frozen=True)
class Reopen:
    def happen(self, world: World) -> None:
        world.reopen()


_delays = st.sampled_from([0, 0.5, 2, 20])
_leases = st.sampled_from([None, 1, 5])
_seconds = st.sampled_from([0.5, 1, 3, 15, 30, 90])
_which = st.integers(0, 30)

_options: dict[str, st.SearchStrategy[Any]] = {
    "key": st.sampled_from(["k1", "k2"]),
    "group": st.sampled_from(["g1", "g2"]),
    "priority": st.sampled_from([-1, 1]),
    "delay": _delays,
    "ttl": st.sampled_from([0, 2, 20]),
    "deadline": st.sampled_from([1, 10]),
    "max_attempts": st.sampled_from([0, 1, 2]),
    "backoff": st.sampled_from([[], [1], [0, 3]]),
}

_sends = st.builds(Send, st.lists(st.fixed_dictionaries({}, optional=_options), min_size=1, max_size=3))
_verdicts = st.one_of(
    st.builds(Settlement, st.just("nack"), st.none() | _delays, st.booleans()),
    st.builds(Settlement, st.just("reschedule"), _delays),
    st.builds(Settlement, st.sampled_from(["ack", "nack", "reject"])),
)
_works = st.builds(Transaction, st.sampled_from(["q", "q", "q", "q.dlq"]), st.integers(1, 3), _leases, st.lists(_verdicts, max_size=2))
_settles = st.builds(Settle, _which, _verdicts)
_accidents = st.one_of(
    st.builds(Purge, st.none() | st.sets(st.sampled_from(STATES), min_size=1, max_size=2)),
    st.builds(Delete, _which),
    st.builds(Pause, _seconds),
    st.just(Reopen()),
)

_kinds: dict[str, st.SearchStrategy[Event]] = {
    "send": _sends,
    "work": _works,
    "settle": _settles,
    "time": st.builds(Time, _seconds),
    "extend": st.builds(Extend, _which, _leases),
    "redrive": st.builds(Redrive, st.booleans()),
    "maintain": st.just(Maintain()),
    "accident": _accidents,
}
_weights = ["send"] * 4 + ["work"] * 5 + ["settle"] * 4 + ["time"] * 3 + ["extend", "redrive", "maintain", "accident"]

events = st.sampled_from(_weights).flatmap(_kinds.__getitem__)
