"""An application that holds a key or a group in a transaction of its own keeps those waiting who want the same, and nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import rowq
from rowq.store.postgresql.dialect import Postgresql
from tests.rivals.application import own_connection
from tests.support.background import Background
from tests.support.crowd import Crowd
from tests.support.patience import DEADLINE, eventually
from tests.support.tables import faults_of

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)

CALLS = 30
SOON = DEADLINE
PATIENCE = 100
"""Seconds for which a broker waits for a lock: longer than any of these tests takes, so that who waits is not refused."""


@pytest.fixture
def broker(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[rowq.Broker]:
    """It remembers the settings of a queue for as long as a test takes, and runs maintenance only when it is told to."""
    monkeypatch.setattr(Postgresql, "settings_max_age_ms", 600_000)
    with rowq.connect(url, timeout=PATIENCE, maintenance=False) as broker:
        yield broker


@pytest.mark.parametrize("held", [{"key": "held"}, {"group": "held"}], ids=["key", "group"])
def test_others_send_receive_and_ack_while_an_application_holds_what_some_wait_for(
    url: str, broker: rowq.Broker, held: dict[str, Any]
) -> None:
    def send(options: dict[str, Any]) -> Callable[[], list[str]]:
        return lambda: [broker.send("q", number, **options) for number in range(CALLS)]

    def handle() -> list[str]:
        deliveries: list[rowq.Delivery] = []
        while len(deliveries) < CALLS:
            for delivery in broker.receive("q", wait=1):
                broker.ack(delivery)
                deliveries.append(delivery)
        return [delivery.id for delivery in deliveries]

    broker.configure("q", lease=60)
    with closing(own_connection(url)) as own, rowq.connect(url, maintenance=False) as other:
        of_the_application = broker.within(own).send("q", "of the application", **held)
        waiting = [Background(lambda: broker.send("q", "of one who waits", **held)) for _ in range(3)]
        others = Crowd([send({}), send({"key": "another"}), send({"group": "another"}), handle, handle])
        assert all(others.results(SOON)), "held up"
        for _ in range(5):
            assert other.send("q", "of another broker", key="yet another")
        assert all(call.is_running for call in waiting), "answered before the application has made up its mind"
        own.commit()
    ids = {call.result(SOON) for call in waiting}
    assert ids == {of_the_application} if "key" in held else len(ids - {of_the_application}) == 3
    assert faults_of(url) == {}


def test_what_waits_behind_a_transaction_that_is_undone_goes_in(url: str, broker: rowq.Broker) -> None:
    broker.configure("q", lease=60)
    with closing(own_connection(url)) as own:
        undone = broker.within(own).send("q", "undone", key="k", group="g")
        waiting = Background(lambda: broker.send("q", "done", key="k", group="g"))
        broker.send("q", "meanwhile")
        assert waiting.is_running
        own.rollback()
    assert waiting.result(SOON) != undone
    assert {message.payload for message in broker.walk("q")} == {"done", "meanwhile"}
    assert faults_of(url) == {}


def test_the_first_send_to_a_queue_holds_up_nobody_else_who_sends_to_it(url: str, broker: rowq.Broker) -> None:
    with closing(own_connection(url)) as own:
        broker.within(own).send("q", "of the application")
        assert Background(lambda: broker.send("q", "of another")).result(SOON)
        own.commit()
    assert {message.payload for message in broker.walk("q")} == {"of the application", "of another"}


def test_a_message_that_an_application_acks_in_a_long_transaction_is_nobody_elses_meanwhile(url: str, broker: rowq.Broker) -> None:
    """Its lease runs out while the transaction is open; whoever comes for it must not wait, and must not get it."""
    id = broker.send("q", "slow")
    (delivery,) = eventually(lambda: broker.receive("q", lease=0.5))  # an answer that took too long for so short a lease is not given
    with closing(own_connection(url)) as own:
        broker.within(own).ack(delivery)
        eventually(lambda: broker._engine.clock.now() > delivery.lease_until)
        assert Background(lambda: broker.receive("q", wait=0.3)).result(SOON) == []
        assert Background(broker.maintain).result(SOON)
        broker.send("q", "quick")
        assert [other.payload for other in broker.receive("q", wait=30)] == ["quick"]
        own.commit()
    with pytest.raises(rowq.MessageNotFound):
        broker.get(id)
    assert faults_of(url) == {}


def test_what_was_acked_at_once_stays_acked_while_another_of_the_call_waits(url: str, broker: rowq.Broker) -> None:
    """One of two deliveries has a key, and so is looked at the long way, where the application stands in its way."""
    broker.configure("q", lease=60)
    broker.send_many("q", ["plain", rowq.Draft("keyed", key="k")])
    broker.ack(broker.receive("q", max=2)[0])  # from now on the settings of the queue are known
    broker.send("q", "plain")
    plain, keyed = broker.receive("q")[0], next(message for message in broker.browse("q", state="leased") if message.key)
    receipt = broker._engine.insights.leases([rowq.ids.origin_of(keyed.id).seq])  # type: ignore[union-attr]
    keyed_receipt = f"{keyed.id}.{next(iter(receipt.values())):016x}"
    with closing(own_connection(url)) as own:
        broker.within(own).ack(keyed_receipt)
        both = Background(lambda: broker.ack_many([plain, keyed_receipt]))
        if url.startswith("postgresql"):  # the one that acks by a statement of its own, committed while the other waits
            eventually(lambda: plain.id not in [each.id for each in broker.browse("q", state="leased")])
        own.rollback()
    assert both.result(SOON) == [rowq.Outcome.DONE, rowq.Outcome.DONE]
    assert broker.stats("q").depth == 0
    assert faults_of(url) == {}


def test_a_waiting_message_that_an_application_is_replacing_is_passed_over(url: str, broker: rowq.Broker) -> None:
    """Whoever receives takes the next one, and does not wait for the application to make up its mind."""
    broker.configure("q", lease=60)
    broker.send_many("q", [rowq.Draft("of before", key="k"), "next"])
    with closing(own_connection(url)) as own:
        broker.within(own).send("q", "of now", key="k")
        assert [other.payload for other in Background(lambda: broker.receive("q", max=2)).result(SOON)] == ["next"]
        own.commit()
    assert [delivery.payload for delivery in broker.receive("q", wait=SOON)] == ["of now"]
    assert faults_of(url) == {}


@pytest.mark.parametrize("settle", ["ack_many", "nack_many", "reject_many"])
def test_of_two_who_settle_one_delivery_at_the_same_time_one_is_too_late(url: str, broker: rowq.Broker, settle: str) -> None:
    broker.configure("q", lease=60)
    id = broker.send("q", "x")
    (delivery,) = broker.receive("q")
    with closing(own_connection(url)) as own:
        broker.within(own).reschedule(delivery, 3600)
        late = Background(lambda: getattr(broker, settle)([delivery]))
        broker.send("q", "meanwhile")
        assert late.is_running, "answered before the application has made up its mind"
        own.commit()
    assert late.result(SOON) == [rowq.Outcome.STALE]
    assert broker.get(id).state == rowq.State.SCHEDULED
    assert faults_of(url) == {}
