"""While the first is being processed a successor waits; the older one steps back when it returns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, Delivery, ManualClock, State
from tests.support.life import assert_gone, bury, depths, drain, history_of, ids, pass_time, state_of, take


def leased_with_successor(broker: Broker) -> tuple[Delivery, str]:
    broker.send("q", "old", key="k")
    delivery = take(broker)
    return delivery, broker.send("q", "new", key="k")


def waiting(broker: Broker) -> list[str]:
    return [id for state in ("ready", "scheduled", "blocked") for id in ids(broker.browse("q", state=state))]


def test_a_successor_is_a_message_of_its_own(broker: Broker) -> None:
    delivery, successor = leased_with_successor(broker)
    assert successor != delivery.id
    assert depths(broker) == {"leased": 1, "ready": 1}
    assert broker.get(delivery.id).payload == "old"


def test_the_ack_of_the_older_leaves_the_successor(broker: Broker) -> None:
    delivery, successor = leased_with_successor(broker)
    broker.ack(delivery)
    assert waiting(broker) == [successor]
    assert broker.send("q", "newer", key="k") == successor
    assert drain(broker) == ["newer"]


def test_the_successor_is_what_is_replaced(broker: Broker) -> None:
    delivery, successor = leased_with_successor(broker)
    assert broker.send("q", "newer", key="k") == successor
    assert broker.get(delivery.id).payload == "old"
    assert take(broker).payload == "newer"


RETURNS: dict[str, Callable[[Broker, ManualClock, Delivery], object]] = {
    "nack": lambda broker, clock, delivery: broker.nack(delivery),
    "nack at once": lambda broker, clock, delivery: broker.nack(delivery, delay=0),
    "release": lambda broker, clock, delivery: broker.nack(delivery, counts=False),
    "reschedule": lambda broker, clock, delivery: broker.reschedule(delivery, 60),
    "lost lease": lambda broker, clock, delivery: pass_time(broker, clock, 40),
    "nack_many": lambda broker, clock, delivery: broker.nack_many([delivery]),
}
every_return = pytest.mark.parametrize("come_back", RETURNS.values(), ids=RETURNS)


@every_return
def test_the_older_is_superseded_when_it_comes_back(broker: Broker, clock: ManualClock, come_back: Callable[..., object]) -> None:
    broker.configure("q", keep="outcome")
    delivery, successor = leased_with_successor(broker)
    come_back(broker, clock, delivery)
    assert waiting(broker) == [successor]
    older = broker.get(delivery.id)
    assert (older.state, older.outcome) == (State.FINISHED, "superseded")
    assert history_of(broker, delivery.id)[-1] == "superseded"
    assert drain(broker) == ["new"]


def test_what_gives_way_has_the_attempts_that_it_came_back_with(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", keep="outcome")
    nacked, _ = leased_with_successor(broker)
    broker.nack(nacked)
    assert broker.get(nacked.id).attempts == 1
    broker.purge("q")
    released, _ = leased_with_successor(broker)
    broker.nack(released, counts=False)
    assert broker.get(released.id).attempts == 0


@every_return
def test_a_superseded_message_is_not_kept_unless_asked(broker: Broker, clock: ManualClock, come_back: Callable[..., object]) -> None:
    delivery, _ = leased_with_successor(broker)
    come_back(broker, clock, delivery)
    assert depths(broker) == {"ready": 1}


def test_a_lost_lease_taken_up_by_receive_is_superseded(broker: Broker, clock: ManualClock) -> None:
    _, successor = leased_with_successor(broker)
    clock.advance(31)
    assert ids(broker.receive("q", max=10)) == [successor]


def test_the_last_nack_of_the_older_makes_a_dead_letter(broker: Broker) -> None:
    broker.send("q", "old", key="k", max_attempts=1)
    delivery = take(broker)
    successor = broker.send("q", "new", key="k")
    broker.nack(delivery)
    assert depths(broker) == {"dead": 1, "ready": 1}
    assert waiting(broker) == [successor]


def test_the_rejected_older_is_a_dead_letter(broker: Broker) -> None:
    delivery, _ = leased_with_successor(broker)
    broker.reject(delivery)
    assert state_of(broker, delivery.id) == State.DEAD


def both_leased(broker: Broker) -> tuple[Delivery, Delivery]:
    older, _ = leased_with_successor(broker)
    return older, take(broker)


def test_of_two_that_come_back_the_newer_waits_whichever_is_first(broker: Broker) -> None:
    for newer_first in (True, False):
        older, newer = both_leased(broker)
        for delivery in (newer, older) if newer_first else (older, newer):
            broker.nack(delivery, delay=0)
        assert waiting(broker) == [newer.id]
        assert history_of(broker, older.id)[-1] == "superseded"
        assert_gone(broker, older.id)
        assert drain(broker) == ["new"]


def test_of_two_that_come_back_in_one_call_the_newer_waits(broker: Broker) -> None:
    older, newer = both_leased(broker)
    broker.nack_many([newer, older], delay=0)
    assert waiting(broker) == [newer.id]


def test_of_two_whose_leases_run_out_together_the_newer_waits(broker: Broker, clock: ManualClock) -> None:
    _, newer = both_leased(broker)
    clock.advance(40)
    broker.maintain()
    assert waiting(broker) == [newer.id]


def test_a_third_supersedes_both(broker: Broker) -> None:
    older, newer = both_leased(broker)
    third = broker.send("q", "third", key="k")
    broker.nack(newer)
    broker.nack(older)
    assert waiting(broker) == [third]
    assert depths(broker) == {"ready": 1}


def test_a_redriven_message_steps_back_behind_a_newer_one(broker: Broker) -> None:
    dead = bury(broker, "old", key="k")
    newer = broker.send("q", "new", key="k")
    broker.redrive("q")
    assert waiting(broker) == [newer]
    assert history_of(broker, dead)[-1] == "superseded"
    assert depths(broker) == {"ready": 1}


def test_a_redriven_message_comes_back_beside_a_leased_newer_one(broker: Broker) -> None:
    dead = bury(broker, "old", key="k")
    broker.send("q", "new", key="k")
    newer = take(broker)
    broker.redrive("q")
    assert waiting(broker) == [dead]
    broker.nack(newer, delay=0)
    assert waiting(broker) == [newer.id]


def test_of_dead_letters_with_one_key_the_newest_comes_back(broker: Broker) -> None:
    _, _, newest = (bury(broker, number, key="k") for number in range(3))
    broker.redrive("q")
    assert waiting(broker) == [newest]
    assert drain(broker) == [2]


def test_a_superseded_head_lets_its_group_go_on(broker: Broker) -> None:
    broker.send("q", "old", key="k", group="g")
    delivery = take(broker)
    broker.send("q", "new", key="k", group="g")
    broker.nack(delivery)
    assert drain(broker) == ["new"]
