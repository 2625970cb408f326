"""Where the spec contradicts itself or the others, what holds here.

The number is that of the contradiction in the list of them, which the tests of the other APIs go by too."""

from __future__ import annotations

import uuid

import pytest

from rowq import ManualClock, State
from rowq.compat.gq import Client
from rowq.ids import origin_of
from rowq.model.queue import DeliveryMode
from tests.support.patience import eventually
from tests.worker.handling import Notes, registered


def push(client: Client, deadline: float | None = None) -> str:
    return client.new_producer().push("x", deadline=deadline).result()


def outcome_of(client: Client, id: str) -> str | None:
    return client.broker.get(id).outcome


def test_c02_a_message_is_claimed_before_its_deadline(still: Client) -> None:
    id = push(still, deadline=10)
    assert [delivery.id for delivery in still.broker.receive("q", delivery="at_most_once")] == [id]


def test_c02_past_its_deadline_it_is_failed_at_most_once(still: Client, clock: ManualClock) -> None:
    id = push(still, deadline=10)
    clock.advance(11)
    assert still.broker.receive("q", delivery="at_most_once") == []
    assert (outcome_of(still, id), still.broker.get(id).error) == ("failed", "deadline_exceeded")


def test_c02_past_its_deadline_it_is_still_delivered_at_least_once(still: Client, clock: ManualClock) -> None:
    id = push(still, deadline=10)
    clock.advance(11)
    assert [delivery.id for delivery in still.broker.receive("q", delivery="at_least_once")] == [id]


def test_c02_while_it_is_consumed_others_may_claim_it_at_its_deadline(still: Client, clock: ManualClock) -> None:
    id = push(still, deadline=10)
    still.broker.receive("q", lease=300, delivery="at_least_once")
    clock.advance(9)
    assert still.broker.receive("q") == []
    clock.advance(2)
    assert [(delivery.id, delivery.attempt) for delivery in still.broker.receive("q", delivery="at_least_once")] == [(id, 2)]


@pytest.mark.parametrize("deadline", [600, 3_500, None])
def test_c03_a_lease_ends_at_the_deadline_at_the_latest(still: Client, clock: ManualClock, deadline: float | None) -> None:
    id = push(still, deadline)
    (delivery,) = still.broker.receive("q", lease=1_800)
    assert delivery.lease_until == (still.broker.get(id).deadline if deadline == 600 else clock.now() + 1_800_000)


def test_c03_without_a_deadline_a_crash_does_not_hold_a_message_for_ever(still: Client, clock: ManualClock) -> None:
    id = push(still)
    still.broker.receive("q", lease=30)
    clock.advance(31)
    assert [delivery.id for delivery in still.broker.receive("q")] == [id]


def test_c03_after_a_crash_it_is_failed_at_most_once(still: Client, clock: ManualClock) -> None:
    id = push(still)
    still.broker.receive("q", lease=30, delivery="at_most_once")
    clock.advance(31)
    assert still.broker.receive("q", delivery="at_most_once") == []
    still.broker.maintain()
    assert outcome_of(still, id) == "failed"


def test_c04_at_most_once_tries_again_what_the_function_could_not_do(client: Client) -> None:
    id = push(client, deadline=3600)
    notes = Notes(lambda delivery: 1 / 0 if delivery.attempt < 3 else None)
    with client.new_consumer(delivery="at_most_once").worker(notes):
        eventually(lambda: client.broker.get(id).state is State.FINISHED)
    assert ([delivery.attempt for delivery in notes.taken], outcome_of(client, id)) == ([1, 2, 3], "acked")


@pytest.mark.parametrize("mode", ["at_least_once", "at_most_once"])
def test_c04_one_attempt_is_strictly_one(client: Client, mode: DeliveryMode) -> None:
    id = client.broker.send("q", "x", max_attempts=1)
    notes = Notes(lambda delivery: 1 / 0)
    with client.new_consumer(delivery=mode).worker(notes):
        eventually(lambda: client.broker.get(id).state is State.FINISHED)
    assert (len(notes.taken), outcome_of(client, id)) == (1, "failed")


def test_c05_attempts_are_without_limit(client: Client) -> None:
    id = push(client)
    notes = Notes(lambda delivery: 1 / 0 if delivery.attempt < 20 else None)
    with client.new_consumer().worker(notes):
        eventually(lambda: client.broker.get(id).state is State.FINISHED)
    assert outcome_of(client, id) == "acked"


def test_c27_the_id_is_a_uuid_that_carries_the_number_which_shares_go_by(client: Client) -> None:
    first, second = push(client), push(client)
    assert uuid.UUID(first).version == 7
    origins = [origin_of(first), origin_of(second)]
    assert [origin.seq for origin in origins if origin is not None] == sorted(origin.seq for origin in origins if origin is not None)


def test_c28_a_consumer_has_an_id_and_a_number_and_competes_unless_it_is_told_to_share(client: Client) -> None:
    client.broker.register("q", dead_after=3600)
    id = push(client)
    notes = Notes()
    with client.new_consumer(dead_after=3600).worker(notes) as consumer:
        member = registered(consumer)
        assert (str(uuid.UUID(member.id)), member.index) == (member.id, 1)
        eventually(lambda: client.broker.get(id).state is State.FINISHED)


def test_c28_the_defaults_are_a_beat_every_two_seconds_and_death_after_five(client: Client) -> None:
    plan = client.new_consumer().worker(print)._plan
    assert (plan.beat, plan.dead_after, plan.partitioned) == (2, 5, False)


def test_c29_a_batch_has_a_receipt_for_each_message(client: Client) -> None:
    for _ in range(12):
        push(client)
    assert client.new_consumer().worker(print)._plan.batch_size == 10
    deliveries = client.broker.receive("q", max=10)
    assert len({delivery.receipt for delivery in deliveries}) == 10


def test_c48_a_producer_that_gathers_tells_of_each_message_when_it_is_on_disk(client: Client) -> None:
    with client.broker.producer("q", batch_size=5, linger=3600) as producer:
        pushed = [producer.push(number) for number in range(7)]
        assert len({one.result(timeout=20) for one in pushed[:5]}) == 5
        assert not pushed[5].done()
        producer.flush()
        assert all(one.done() for one in pushed)
