"""One waiting message for each key: sending again replaces payload and headers in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, Draft, ManualClock, PayloadTooLarge, State
from tests.support.life import bury, delete_while_leased, depths, drain, history_of, pass_time, purge_while_leased, state_of, take


def test_sending_again_replaces_payload_and_headers(broker: Broker) -> None:
    first = broker.send("q", "old", key="k", headers={"v": "1", "old": "yes"})
    second = broker.send("q", "new", key="k", headers={"v": "2"})
    assert first == second
    assert depths(broker) == {"ready": 1}
    message = broker.get(first)
    assert (message.payload, message.headers) == ("new", {"v": "2"})
    assert take(broker).payload == "new"


def test_a_replacement_may_be_of_another_type(broker: Broker) -> None:
    broker.send("q", b"bytes", key="k")
    broker.send("q", {"json": True}, key="k")
    assert take(broker).payload == {"json": True}


def test_a_replacement_keeps_the_place(broker: Broker) -> None:
    broker.send("q", "old", key="k")
    broker.send("q", "between")
    broker.send("q", "new", key="k")
    assert drain(broker) == ["new", "between"]


def test_other_options_of_the_second_send_are_ignored(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "old", key="k", priority=1, ttl=100)
    before = broker.get(id)
    clock.advance(5)
    broker.send("q", "new", key="k", priority=9, delay=60, ttl=1, max_attempts=1, group="g", deadline=5)
    after = broker.get(id)
    assert after.payload == "new"
    for field in ("state", "priority", "expires_at", "max_attempts", "group", "deadline", "sent_at"):
        assert getattr(after, field) == getattr(before, field)


def test_a_delayed_message_is_replaced_and_still_waits(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "old", key="k", delay=60)
    due_at = broker.get(id).due_at
    clock.advance(10)
    assert broker.send("q", "new", key="k") == id
    message = broker.get(id)
    assert (message.state, message.due_at, message.payload) == (State.SCHEDULED, due_at, "new")
    clock.advance(50)
    assert drain(broker) == ["new"]


def test_a_backing_off_message_is_replaced_and_still_waits(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "old", key="k")
    broker.nack(take(broker))
    assert broker.send("q", "new", key="k") == id
    assert depths(broker) == {"scheduled": 1}
    clock.advance(1)
    delivery = take(broker)
    assert (delivery.id, delivery.payload, delivery.attempt) == (id, "new", 2)


def test_a_blocked_message_is_replaced_and_still_blocked(broker: Broker) -> None:
    broker.send("q", "head", group="g")
    id = broker.send("q", "old", key="k", group="g")
    assert broker.send("q", "new", key="k", group="g") == id
    assert state_of(broker, id) == State.BLOCKED
    assert drain(broker) == ["head", "new"]


def test_keys_are_of_one_queue(broker: Broker) -> None:
    assert broker.send("q", 1, key="k") != broker.send("p", 2, key="k")
    assert (drain(broker, "q"), drain(broker, "p")) == ([1], [2])


def test_different_keys_do_not_meet(broker: Broker) -> None:
    keys = ["k", "K", "k ", "ķ", "k" * 255]
    assert len({broker.send("q", key, key=key) for key in keys}) == 5
    assert drain(broker) == keys


def test_messages_without_key_are_never_replaced(broker: Broker) -> None:
    broker.send_many("q", ["a", "a"])
    assert depths(broker) == {"ready": 2}


def test_a_key_twice_in_one_call_is_one_message(broker: Broker) -> None:
    first, other, second = broker.send_many("q", [Draft("old", key="k"), "other", Draft("new", key="k", headers={"v": "2"})])
    assert first == second != other
    assert [(d.payload, d.headers) for d in broker.receive("q", max=10)] == [("new", {"v": "2"}), ("other", {})]


def test_one_key_for_a_whole_call_is_one_message(broker: Broker) -> None:
    assert len(set(broker.send_many("q", [1, 2, 3], key="k"))) == 1
    assert drain(broker) == [3]


def test_a_refused_replacement_leaves_the_old_payload(broker: Broker) -> None:
    id = broker.send("q", "old", key="k")
    with pytest.raises(PayloadTooLarge):
        broker.send("q", b"x" * (256 * 1024 + 1), key="k")
    assert broker.get(id).payload == "old"


def test_a_replacement_keeps_the_own_id_of_the_first(broker: Broker) -> None:
    broker.send("q", "old", key="k", id="first")
    assert broker.send("q", "new", key="k", id="second") == "first"
    assert broker.get("first").payload == "new"


def test_a_replacement_is_told(broker: Broker) -> None:
    id = broker.send("q", "old", key="k")
    broker.send("q", "new", key="k")
    assert history_of(broker, id) == ["enqueued", "replaced"]


ENDS: dict[str, Callable[[Broker, ManualClock, str], object]] = {
    "ack": lambda broker, clock, id: broker.ack(take(broker)),
    "reject": lambda broker, clock, id: broker.reject(take(broker)),
    "delete": lambda broker, clock, id: broker.delete(id),
    "delete while leased": lambda broker, clock, id: delete_while_leased(broker, id),
    "purge": lambda broker, clock, id: broker.purge("q"),
    "purge while leased": lambda broker, clock, id: purge_while_leased(broker),
    "expiry": lambda broker, clock, id: pass_time(broker, clock, 100),
    "delete_queue": lambda broker, clock, id: broker.delete_queue("q"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_key_is_free_when_its_message_has_ended(broker: Broker, clock: ManualClock, end: Callable[..., object]) -> None:
    first = broker.send("q", "old", key="k", ttl=50)
    end(broker, clock, first)
    second = broker.send("q", "new", key="k")
    assert second != first
    assert drain(broker) == ["new"]


def test_a_redriven_message_holds_its_key_again(broker: Broker) -> None:
    id = bury(broker, "old", key="k")
    broker.redrive("q")
    assert broker.send("q", "new", key="k") == id
    assert drain(broker) == ["new"]


def test_a_dead_letter_is_not_replaced(broker: Broker) -> None:
    dead = bury(broker, "old", key="k")
    assert broker.send("q", "new", key="k") != dead
    assert broker.get(dead).payload == "old"


@pytest.mark.parametrize("on_expire", ["dead", "expired", "delete"])
def test_a_message_past_its_time_gives_its_place_to_nobody(broker: Broker, clock: ManualClock, on_expire: str) -> None:
    broker.configure("q", on_expire=on_expire)  # type: ignore[arg-type]
    old = broker.send("q", "old", key="k", ttl=10)
    clock.advance(11)
    new = broker.send("q", "new", key="k")
    assert new != old
    assert drain(broker) == ["new"]


def test_a_returning_message_is_not_superseded_by_one_past_its_time(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "older", key="k")
    delivery = take(broker, lease=100)
    broker.send("q", "newer", key="k", ttl=10)
    clock.advance(11)
    broker.nack(delivery, delay=0)
    assert drain(broker) == ["older"]
