"""Two queues with the same settings live the same life, one by the SQL API and one by the broker: after each step they look alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

import rowq
from rowq import Delivery, ManualClock, Message
from rowq.model.queue import SettingsOptions
from tests.compat.peq.sql import NOBODY, Sql
from tests.support.tables import PostgresqlTables

LIVES = [
    pytest.param(0, 30),
    *(pytest.param(seed, 70, marks=pytest.mark.prove("5 s each; the first 30 steps of a life stand for it")) for seed in (0, 1)),
]
"""The seed of a life, and its steps."""

SETTINGS: list[SettingsOptions] = [
    {"max_attempts": 3, "backoff": [], "keep": "body"},
    {"max_attempts": 0, "backoff": [20, 40], "keep": "outcome", "ttl": 300, "on_expire": "expired"},
    {"max_attempts": 2, "backoff": rowq.linear(30), "keep": "none", "on_exhausted": "fail", "order": "ready"},
    {"max_attempts": 4, "backoff": rowq.exponential(10, factor=3), "ttl": 100, "lease_expiry_backoff": "nack", "ttl_from": "enqueue"},
    {"max_attempts": 3, "delivery": "at_most_once", "on_exhausted": "delete", "keep": "body", "ttl": 60, "on_expire": "delete"},
    {"max_attempts": 2, "count_lease_expiry": False, "backoff": [15], "audit": False, "order": "ready"},
]


class Twins:
    """`test01` is used by SQL, `twin` by the broker; `held` are pairs that were taken and not settled. Time stands still for both."""

    def __init__(self, url: str, sql: Sql, chosen: random.Random) -> None:
        self._url = url
        self._sql = sql
        self._chosen = chosen
        self._clock = ManualClock(sql.stop_clock())
        self.broker = self._connect()
        self.ids: list[tuple[str, str]] = []
        self.held: list[tuple[UUID, Delivery]] = []

    def _connect(self) -> rowq.Broker:
        return rowq.connect(self._url, clock=self._clock, maintenance=False)

    def send(self) -> None:
        delay = self._chosen.choice((0, 0, 0, 50))
        payload = len(self.ids)
        own = self._chosen.choice((None, UUID(int=self._chosen.getrandbits(128), version=4)))
        self._sql.enqueue(payload, delay_seconds=delay, message_id=own)
        ((found,),) = self._sql("SELECT message_id FROM test01.message_queue WHERE message_json::TEXT = %s", str(payload))
        self.ids.append((str(found), self.broker.send("twin", payload, delay=delay, id=None if own is None else f"twin-{own}")))

    def take(self) -> None:
        """A client in SQL takes up no more of what is due than it needs: maintenance takes the rest."""
        lease = self._chosen.choice((30, 100))
        id, payload = self._sql.dequeue("worker", lease)
        deliveries = self.broker.receive("twin", lease=lease, consumer="worker")
        assert [delivery.payload for delivery in deliveries] == ([] if id == NOBODY else [payload])
        self.held += [(id, delivery) for delivery in deliveries]
        self.broker.maintain()

    def ack(self) -> None:
        self._settle(lambda id: self._sql.ack(id, "worker"), self.broker.ack)

    def nack(self) -> None:
        self._settle(lambda id: self._sql.nak(id, "worker", "no"), lambda delivery: self.broker.nack(delivery, reason="no"))

    def reject(self) -> None:
        self._settle(lambda id: self._sql.rej(id, "worker", "bad"), lambda delivery: self.broker.reject(delivery, reason="bad"))

    def reschedule(self) -> None:
        later = "CALL test01.message_reschedule(%s, 25, 'worker', 'later')"
        self._settle(lambda id: self._sql(later, id), lambda delivery: self.broker.reschedule(delivery, 25, reason="later"))

    def let_pass(self) -> None:
        """A new broker remembers nothing of when something would have been due. Where places are given out on return, one hand does it."""
        self._sql.let_pass(self._chosen.choice((10, 35, 110)))
        self.broker.close()
        self.broker = self._connect()
        self.held.clear()
        if self.broker.policy("twin").order == "ready":
            self.broker.maintain()

    def _settle(self, in_sql: Callable[[UUID], object], in_python: Callable[[Delivery], None]) -> None:
        if self.held:
            id, delivery = self.held.pop(self._chosen.randrange(len(self.held)))
            in_sql(id)
            in_python(delivery)

    def differences(self) -> list[Any]:
        pairs = [(self._look(one), self._look(other)) for one, other in self.ids]
        return [pair for pair in pairs if not alike(*pair)]

    def stories(self) -> list[tuple[Any, Any]]:
        """What the audit tells of each message, on the one side and on the other."""
        return [(self._story(one), self._story(other)) for one, other in self.ids]

    def _story(self, id: str) -> Any:
        try:
            return [(line.event, line.attempt) for line in self.broker.audit(id)]
        except rowq.MessageNotFound:
            return None

    def _look(self, id: str) -> Message | None:
        try:
            return self.broker.get(id)
        except rowq.MessageNotFound:
            return None


def alike(one: Message | None, other: Message | None) -> bool:
    if one is None or other is None:
        return one is other
    same = ("state", "payload", "attempts", "error", "reason", "outcome", "consumer", "priority")
    times = ("due_at", "expires_at", "lease_until", "leased_at", "died_at", "finished_at")
    return all(getattr(one, name) == getattr(other, name) for name in same) and all(
        (getattr(one, name) is None) == (getattr(other, name) is None)
        and (getattr(one, name) or one.sent_at) - one.sent_at == (getattr(other, name) or other.sent_at) - other.sent_at
        for name in times
    )


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@pytest.mark.parametrize(("seed", "steps"), LIVES)
def test_both_live_the_same_life(url: str, sql: Sql, number: int, seed: int, steps: int) -> None:
    chosen = random.Random(100 * number + seed)
    twins, tables = Twins(url, sql, chosen), PostgresqlTables(url)
    settings: SettingsOptions = {"keep": "none", "backoff": None, **SETTINGS[number]}
    for queue in ("test01", "twin"):
        twins.broker.configure(queue, **settings)
    possible = [*[twins.send] * 4, *[twins.take] * 6, twins.ack, *[twins.nack] * 3, twins.reject, twins.reschedule, twins.let_pass]
    done: list[str] = []
    try:
        for _ in range(steps):
            step = chosen.choice(possible)
            done.append(step.__name__)
            step()
            assert not twins.differences(), done
        assert not tables.faults()
        assert all(one == other for one, other in twins.stories())
    finally:
        tables.close()
        twins.broker.close()
