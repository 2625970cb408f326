"""A broker and its model side by side. What is done to the one is done to the other, and then they are compared."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import rowq
from rowq import Broker, Delivery, Draft, ManualClock, Outcome, Settings, State
from rowq.model.queue import resolve
from tests.histories.comparison import as_expected, expected_delivery, ms, of_delivery, of_message
from tests.histories.entry import Entry
from tests.histories.model import WAITING, Model
from tests.support.database import new_database
from tests.support.servers import give_back
from tests.support.tables import tables_of

STATES = [str(state) for state in State]

LockedMessage = tuple[Delivery, int]
"""A delivery, and the number of its lease in the model."""


class World:
    def __init__(self, settings: Settings, kind: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rowq-history-"))
        self._url = new_database(kind, self._folder).url
        self._settings = settings
        self.has_soft_limits = kind != "sqlite"
        """Where several write at once, a limit is counted about once a second, and may be overstepped meanwhile."""
        self.clock = ManualClock()
        self.model = Model(resolve(settings), self.clock)
        self.sent: list[str] = []
        self.deliveries: list[LockedMessage] = []
        self.broker = self._open()
        self.broker.configure("q")
        self.broker.send_many("bystander", [Draft("a", key="k1", group="g1", ttl=0), Draft("b", key="k2", group="g1", ttl=0)])
        self._tables = tables_of(self._url)

    def reopen(self) -> None:
        """As a process that ends and begins anew: all that was remembered is gone."""
        self.broker.close()
        self.broker = self._open()

    def close(self) -> None:
        self._tables.close()
        self.broker.close()
        give_back(self._url)
        shutil.rmtree(self._folder)

    def current(self) -> list[LockedMessage]:
        return [held for held in self.deliveries if self.model.is_current(self.model.entries.get(held[0].id), held[1])]

    def chosen(self, which: int) -> list[LockedMessage]:
        """One or two deliveries, mostly current ones; stale receipts are tried as well."""
        pool = (self.current() if which % 5 else []) or self.deliveries[-6:]
        first = which % max(1, len(pool))
        return pool[first : first + 1 + which % 2]

    def receive(self, queue: str, most: int, lease: float | None) -> list[LockedMessage]:
        deliveries = self.broker.receive(queue, max=most, lease=lease)
        expected = (self.model.receive if queue == "q" else self.model.receive_dead)(most, ms(lease))
        assert [of_delivery(delivery) for delivery in deliveries] == [expected_delivery(entry) for entry in expected]
        held = [(delivery, entry.lease) for delivery, entry in zip(deliveries, expected, strict=True)]
        self.deliveries += held
        return held

    def settle(self, chosen: list[LockedMessage], outcomes: list[Outcome], apply: Callable[[Entry], None]) -> None:
        """What is current is settled, in the model too; of everything else nothing changes."""
        expected = []
        for delivery, number in chosen:
            entry = self.model.entries.get(delivery.id)
            if entry is not None and self.model.is_current(entry, number):
                apply(entry)
                expected.append(Outcome.DONE)
            else:
                expected.append(Outcome.STALE if entry is not None and entry.has_body else Outcome.NOT_FOUND)
        assert outcomes == expected

    def drain(self) -> None:
        """Nothing is stuck and nothing is lost: with time and patience, all that waits comes out."""
        for id in self.sent:
            self.check_by_id(id)
        for _ in range(40):
            if not self.model.of(*WAITING, "leased"):
                break
            self.clock.advance(3_600)
            self.broker.maintain()
            self.model.maintain()
            self.receive("q", 1_000, None)
            current = self.current()
            self.settle(current, self.broker.ack_many([delivery for delivery, _ in current]), self.model.ack)
            self.check()
        assert (self.broker.stats("q").depth, self.model.of(*WAITING)) == (0, []), "stuck"
        self.check_tables()

    def check(self) -> None:
        """Every message is in one state, and in the one that the model says; the ready ones stand in its order."""
        found = list(self.broker.walk("q", states=STATES))
        assert len(found) == len({message.id for message in found}), "a message in two states"
        expected = {id: as_expected(entry) for id, entry in self.model.entries.items()}
        assert {message.id: of_message(message) for message in found} == expected
        ready = [message.id for message in found if message.state == "ready"]
        assert ready == [entry.id for entry in self.model.ready()], "the order of the ready"

    def check_counts(self) -> None:
        stats = self.broker.stats("q")
        expected = Counter("dead" if entry.state == "leased" and entry.reason else entry.state for entry in self.model.entries.values())
        assert {state: getattr(stats, state) for state in STATES} == {state: expected[state] for state in STATES}
        bystander = self.broker.stats("bystander")
        assert (bystander.ready, bystander.blocked, bystander.depth) == (1, 1, 2), "another queue was touched"

    def check_by_id(self, id: str) -> None:
        entry = self.model.entries.get(id)
        try:
            message = self.broker.get(id)
        except rowq.MessageNotFound:
            assert entry is None, "lost"
            return
        assert entry is not None, "it should be gone"
        assert of_message(message) == as_expected(entry)

    def check_tables(self) -> None:
        assert self._tables.faults() == {}

    def _open(self) -> Broker:
        url = self._url if self.has_soft_limits else f"{self._url}?durability=normal"  # a server of tests does not sync anyway
        return rowq.connect(url, clock=self.clock, maintenance=False, defaults=self._settings)
