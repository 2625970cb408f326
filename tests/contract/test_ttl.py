"""Never delivered once past, even before maintenance ran; in flight it is immune."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, ManualClock, State
from tests.support.life import assert_gone, depths, ids, is_silent, pass_time, take


def test_nothing_expires_by_default(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    clock.advance(3_650 * 86_400)
    broker.maintain()
    assert take(broker).payload == "x"


def test_a_message_is_delivered_until_its_ttl(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    clock.advance(9.9)
    assert take(broker).payload == "x"


def test_an_expired_message_is_not_delivered_even_before_maintenance(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    clock.advance(10.1)
    assert is_silent(broker)


def test_expired_messages_do_not_hide_the_living(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(20)), ttl=10)
    broker.send("q", "alive")
    clock.advance(11)
    assert take(broker).payload == "alive"
    assert is_silent(broker)


@pytest.mark.parametrize("by", ["maintain", "receive"])
@pytest.mark.parametrize("on_expire", ["dead", "expired", "delete"])
def test_the_queue_says_what_becomes_of_the_expired(broker: Broker, clock: ManualClock, by: str, on_expire: Any) -> None:
    broker.configure("q", on_expire=on_expire)
    id = broker.send("q", {"to": "ada"}, ttl=10)
    clock.advance(11)
    if by == "maintain":
        assert broker.maintain().expired == 1
    else:
        assert is_silent(broker)
        broker.maintain()
    if on_expire == "delete":
        assert_gone(broker, id)
        assert depths(broker) == {}
        return
    message = broker.get(id)
    assert message.payload == {"to": "ada"}
    if on_expire == "dead":
        assert (message.state, message.reason, message.outcome) == (State.DEAD, "message_expired", None)
    else:
        assert (message.state, message.outcome) == (State.FINISHED, "expired")
        assert ids(broker.browse("q", state="finished")) == [id]


def test_the_queues_ttl_holds_for_its_messages(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", ttl=10)
    assert broker.get(broker.send("q", "x")).expires_at == clock.now() + 10_000


@pytest.mark.parametrize("ttl", [5, 100])
def test_the_messages_ttl_beats_the_queues(broker: Broker, clock: ManualClock, ttl: int) -> None:
    broker.configure("q", ttl=10)
    assert broker.get(broker.send("q", "x", ttl=ttl)).expires_at == clock.now() + ttl * 1000


def test_a_ttl_of_zero_on_the_queue_is_none(broker: Broker) -> None:
    broker.configure("q", ttl=10)
    broker.configure("q", ttl=0)
    assert broker.get(broker.send("q", "x")).expires_at is None


def test_a_message_in_flight_is_immune(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=10)
    delivery = take(broker)
    clock.advance(20)
    broker.maintain()
    assert is_silent(broker)
    assert broker.get(id).state == State.LEASED
    broker.ack(delivery)
    assert "acked" in [event.event for event in broker.audit(id)]


def test_a_message_in_flight_is_immune_while_its_lease_is_extended(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x", ttl=10)
    delivery = take(broker)
    for _ in range(5):
        clock.advance(20)
        broker.extend(delivery, 30)
        broker.maintain()
    broker.ack(delivery)


def assert_expired(broker: Broker, clock: ManualClock, id: str) -> None:
    clock.advance(1)
    assert is_silent(broker)
    broker.maintain()
    assert (broker.get(id).state, broker.get(id).reason) == (State.DEAD, "message_expired")


@pytest.mark.parametrize("nack", [{"delay": 0}, {"delay": 5}, {}, {"counts": False}])
def test_an_expired_message_that_comes_back_is_not_delivered_again(broker: Broker, clock: ManualClock, nack: dict[str, Any]) -> None:
    id = broker.send("q", "x", ttl=10)
    delivery = take(broker)
    clock.advance(20)
    broker.nack(delivery, **nack)
    assert_expired(broker, clock, id)


def test_an_expired_message_whose_lease_ran_out_is_not_delivered_again(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=10)
    take(broker)
    clock.advance(31)
    assert_expired(broker, clock, id)


def test_a_message_expires_while_it_backs_off(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=10, backoff=[60])
    broker.nack(take(broker))
    clock.advance(11)
    assert_expired(broker, clock, id)


def test_a_message_expires_while_it_is_blocked(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "head", group="g")
    id = broker.send("q", "x", group="g", ttl=10)
    head = take(broker)
    clock.advance(11)
    broker.maintain()
    assert broker.get(id).reason == "message_expired"
    broker.ack(head)
    assert is_silent(broker)


def test_a_ttl_counts_from_when_the_message_is_available(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", delay=60, ttl=10)
    assert broker.get(id).expires_at == clock.now() + 70_000
    clock.advance(65)
    assert take(broker).id == id


def test_a_ttl_may_count_from_enqueueing(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", ttl_from="enqueue")
    id = broker.send("q", "x", delay=60, ttl=10)
    assert broker.get(id).expires_at == clock.now() + 10_000
    clock.advance(61)
    assert_expired(broker, clock, id)


def test_an_expired_message_kept_as_expired_goes_with_retention(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", on_expire="expired", retention=100)
    id = broker.send("q", "x", ttl=10)
    clock.advance(11)
    broker.maintain()
    clock.advance(101)
    broker.maintain()
    assert_gone(broker, id)


@pytest.mark.parametrize("refresh", [False, True])
def test_a_replacement_renews_the_ttl_only_where_the_queue_says_so(broker: Broker, clock: ManualClock, refresh: bool) -> None:
    broker.configure("q", ttl=10, refresh_ttl=refresh)
    start = clock.now()
    id = broker.send("q", "old", key="k")
    clock.advance(5)
    assert broker.send("q", "new", key="k") == id
    assert broker.get(id).expires_at == start + (15_000 if refresh else 10_000)


def test_a_renewed_ttl_is_the_one_that_holds(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", ttl=10, refresh_ttl=True)
    broker.send("q", "old", key="k")
    clock.advance(5)
    broker.send("q", "new", key="k")
    pass_time(broker, clock, 6)
    assert depths(broker) == {"ready": 1}
    pass_time(broker, clock, 5)
    assert depths(broker) == {"dead": 1}


def test_many_expire_together(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", list(range(1_500)), ttl=10)
    clock.advance(11)
    broker.maintain()
    assert depths(broker) == {"dead": 1_500}
