"""Consumers that know of each other: who is alive, by the database's clock, and which place in the order of birth each has."""

from __future__ import annotations

from contextlib import closing
from uuid import UUID

import pytest

from rowq import Broker, ConsumerGone, ConsumerLook, InvalidArgument, ManualClock, Membership, NameReserved
from rowq.model.member import MOST_SHARES
from tests.support.database import run
from tests.support.harness import Harness


def places(broker: Broker, queue: str = "q") -> dict[str, int]:
    return {member.id: member.index for member in broker.consumers(queue)}


def test_a_consumer_that_registers_is_the_youngest(broker: Broker) -> None:
    ids = [broker.register("q").id for _ in range(3)]
    assert [broker.beat("q", id) for id in ids] == [Membership(id, index, 3) for index, id in enumerate(ids)]


def test_registering_tells_the_place_at_once(broker: Broker) -> None:
    assert [(broker.register("q").index, broker.register("q").count) for _ in range(2)] == [(0, 2), (2, 4)]


def test_an_id_is_a_uuid(broker: Broker) -> None:
    id = broker.register("q").id
    assert str(UUID(id)) == id


def test_consumers_are_listed_by_age(broker: Broker, clock: ManualClock) -> None:
    first = broker.register("q").id
    clock.advance(1)
    second = broker.register("q").id
    clock.advance(1)
    broker.beat("q", first)
    assert [(member.id, member.index, clock.now() - member.born_at, clock.now() - member.beat_at) for member in broker.consumers("q")] == [
        (first, 0, 2_000, 0),
        (second, 1, 1_000, 1_000),
    ]


def test_each_queue_has_consumers_of_its_own(broker: Broker) -> None:
    broker.register("p")
    assert broker.register("q").count == 1
    assert broker.consumers("nobody") == []


def test_whoever_is_silent_is_not_counted(broker: Broker, clock: ManualClock) -> None:
    silent, alive = broker.register("q"), broker.register("q")
    clock.advance(4.9)
    assert broker.beat("q", alive.id) == Membership(alive.id, 1, 2)
    clock.advance(0.1)
    assert broker.beat("q", alive.id) == Membership(alive.id, 0, 1)
    assert places(broker) == {alive.id: 0}
    with pytest.raises(ConsumerGone, match="register again"):
        broker.beat("q", silent.id)


def test_whoever_was_taken_for_dead_stays_dead_until_it_registers_again(broker: Broker, clock: ManualClock) -> None:
    late = broker.register("q")
    clock.advance(6)
    for _ in range(2):
        with pytest.raises(ConsumerGone):
            broker.beat("q", late.id)
    again = broker.register("q")
    assert (again.id != late.id, again.index, again.count) == (True, 0, 1)


def test_the_dead_are_removed_by_whoever_says_so(broker: Broker, clock: ManualClock) -> None:
    old, young = broker.register("q"), broker.register("q")
    clock.advance(4)
    broker.beat("q", young.id)
    clock.advance(4)
    broker.beat("q", young.id)
    assert [member.id for member in broker.consumers("q", dead_after=60)] == [old.id, young.id]
    assert broker.beat("q", young.id, remove_dead=True) == Membership(young.id, 0, 1)
    assert [member.id for member in broker.consumers("q", dead_after=60)] == [young.id]
    with pytest.raises(ConsumerGone):
        broker.beat("q", old.id, dead_after=60)


def test_how_long_one_may_be_silent_is_a_parameter(broker: Broker, clock: ManualClock) -> None:
    id = broker.register("q", dead_after=60).id
    clock.advance(59)
    assert broker.beat("q", id, dead_after=60).count == 1
    clock.advance(0.5)
    assert broker.register("q", dead_after=0.5).count == 1


def test_whoever_leaves_is_gone_at_once(broker: Broker) -> None:
    first, second = broker.register("q"), broker.register("q")
    broker.unregister("q", first.id)
    assert broker.beat("q", second.id) == Membership(second.id, 0, 1)
    broker.unregister("q", first.id)
    with pytest.raises(ConsumerGone):
        broker.beat("q", first.id)


@pytest.mark.parametrize("id", ["0b2f6a3e-5a55-4f0f-9c8e-2f1f6d0f9a11", "nobody", "", "é/../", "x" * 500])
def test_a_consumer_that_never_was_is_gone(broker: Broker, id: str) -> None:
    broker.unregister("q", id)
    with pytest.raises(ConsumerGone):
        broker.beat("q", id)


def test_an_id_is_of_its_queue(broker: Broker) -> None:
    id = broker.register("q").id
    broker.unregister("p", id)
    with pytest.raises(ConsumerGone):
        broker.beat("p", id)
    assert places(broker) == {id: 0}


def test_consumers_are_seen_by_every_broker_of_the_database(harness: Harness) -> None:
    first = harness.broker.register("q").id
    other = harness.open()
    second = other.register("q")
    assert (second.index, second.count) == (1, 2)
    assert [member.id for member in harness.broker.consumers("q")] == [first, second.id]


def test_deleting_a_queue_lets_its_consumers_go(broker: Broker) -> None:
    broker.send("q", 1)
    id = broker.register("q").id
    broker.delete_queue("q")
    with pytest.raises(ConsumerGone):
        broker.beat("q", id)


def test_maintenance_removes_a_consumer_that_is_silent_for_a_day(broker: Broker, clock: ManualClock) -> None:
    broker.register("q")
    clock.advance(86_400)
    broker.register("p")
    broker.maintain()
    clock.advance(-86_400)
    assert (broker.consumers("q"), len(broker.consumers("p"))) == ([], 1)


def test_a_crowd_is_refused_and_makes_room_when_it_falls_silent(harness: Harness) -> None:
    """A row for each, in the application's own SQL: to register them one by one takes too long."""
    broker, clock = harness.broker, harness.clock
    born = clock.now()
    table = "rowq.rowq_consumers" if harness.url.startswith("postgresql") else "rowq_consumers"
    rows = ", ".join(f"('q', '{UUID(int=number)}', {born}, {born})" for number in range(MOST_SHARES))
    with closing(harness.connection()) as connection:
        run(connection, f"INSERT INTO {table} (queue, id, born_at, beat_at) VALUES {rows}")
        connection.commit()
    with pytest.raises(InvalidArgument, match="10000 consumers"):
        broker.register("q")
    assert broker.register("p").count == 1
    clock.advance(5)
    me = broker.register("q")
    assert (me.index, me.count) == (0, 1)
    assert [member.id for member in broker.consumers("q", dead_after=60)] == [me.id]


@pytest.mark.parametrize("dead_after", [0, -1, 3601, "5", None])
def test_a_silence_that_makes_no_sense_is_refused(broker: Broker, dead_after: float) -> None:
    id = broker.register("q").id
    with pytest.raises(InvalidArgument, match="dead_after"):
        broker.register("q", dead_after=dead_after)
    with pytest.raises(InvalidArgument, match="dead_after"):
        broker.beat("q", id, dead_after=dead_after)
    with pytest.raises(InvalidArgument, match="dead_after"):
        broker.consumers("q", dead_after=dead_after)


def test_dead_letters_have_no_consumers(broker: Broker) -> None:
    with pytest.raises(NameReserved):
        broker.register("q.dlq")


def test_an_id_that_is_no_text_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidArgument):
        broker.beat("q", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        broker.unregister("q", None)  # type: ignore[arg-type]


def test_all_queues_tell_who_takes_their_messages(broker: Broker, clock: ManualClock) -> None:
    born = clock.now()
    first, idle = broker.register("p").id, broker.register("q").id
    broker.send_many("p", range(3))
    broker.receive("p", max=2, consumer=first)
    clock.advance(1)
    broker.receive("p", consumer=first)
    assert broker.all_consumers() == [
        ConsumerLook(queue="p", id=first, alive=True, in_flight=3, born_at=born, beat_at=born, leased_at=clock.now()),
        ConsumerLook(queue="q", id=idle, alive=True, in_flight=0, born_at=born, beat_at=born),
    ]


def test_whoever_holds_messages_is_seen_without_being_registered(broker: Broker, clock: ManualClock) -> None:
    registered = broker.register("q").id
    broker.send_many("q", range(6))
    for consumer in ("worker", "worker", None, None, "another"):
        delivery = broker.receive("q", consumer=consumer)[0]
    assert [(each.id, each.alive, each.in_flight, each.leased_at) for each in broker.all_consumers()] == [
        (registered, True, 0, None),
        (None, None, 2, clock.now()),
        ("another", None, 1, clock.now()),
        ("worker", None, 2, clock.now()),
    ]
    broker.ack(delivery)
    assert "another" not in [each.id for each in broker.all_consumers()]


def test_the_dead_are_told_last(broker: Broker, clock: ManualClock) -> None:
    dead = broker.register("a").id
    broker.send("a", 1)
    broker.receive("a", consumer=dead)
    clock.advance(6)
    alive = broker.register("b").id
    assert [(each.id, each.alive, each.in_flight) for each in broker.all_consumers()] == [(alive, True, 0), (dead, False, 1)]
    assert [(each.id, each.alive) for each in broker.all_consumers(dead_after=60)] == [(dead, True), (alive, True)]


def test_dead_letters_that_somebody_has_are_in_flight(broker: Broker) -> None:
    broker.send("q", 1)
    broker.reject(broker.receive("q")[0])
    broker.receive("q.dlq", consumer="digger")
    assert [(each.queue, each.id, each.in_flight) for each in broker.all_consumers()] == [("q", "digger", 1)]


def test_a_consumer_of_the_library_is_seen_with_what_it_has(broker: Broker) -> None:
    """Registered and receiving under one id."""
    broker.send_many("q", range(3))
    me = broker.register("q")
    broker.receive("q", max=2, consumer=me.id, share=(0, 1))
    assert [(each.id, each.in_flight) for each in broker.all_consumers()] == [(me.id, 2)]


def test_a_silence_of_all_consumers_that_makes_no_sense_is_refused(broker: Broker) -> None:
    assert broker.all_consumers() == []
    with pytest.raises(InvalidArgument, match="dead_after"):
        broker.all_consumers(dead_after=0)
