"""How long a failed message waits: the delay before retry k is backoff[k-1]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowq import Broker, Draft, InvalidArgument, ManualClock, Settings, State, exponential, linear
from rowq.model.retry import Delays, Exponential, Linear
from tests.support.harness import Harness
from tests.support.life import comes_after, nack_until_dead, take


def waits_of(broker: Broker, clock: ManualClock, **options: Any) -> list[float]:
    return nack_until_dead(broker, clock, broker.send("q", "x", **options))


def test_the_default_waits_are_1_5_15_30(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock) == [1, 5, 15, 30]


def test_a_sixth_delivery_waits_60(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, max_attempts=6) == [1, 5, 15, 30, 60]


def test_the_last_delay_serves_all_later_retries(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, max_attempts=8) == [1, 5, 15, 30, 60, 60, 60]


def test_a_backing_off_message_comes_when_due_and_not_sooner(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    broker.nack(take(broker))
    delivery = comes_after(broker, clock, 1)
    assert delivery.attempt == 2
    broker.nack(delivery)
    assert comes_after(broker, clock, 5).attempt == 3


def test_a_wait_begins_at_the_nack(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    clock.advance(20)
    broker.nack(delivery)
    message = broker.get(id)
    assert (message.state, message.due_at) == (State.SCHEDULED, clock.now() + 1_000)


def test_a_list_of_n_delays_means_n_plus_1_deliveries(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=[1, 5, 10]) == [1, 5, 10]


def test_a_queues_list_of_n_delays_means_n_plus_1_deliveries(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", backoff=[2, 3])
    assert waits_of(broker, clock) == [2, 3]


def test_a_servers_list_of_n_delays_means_n_plus_1_deliveries(harness: Harness) -> None:
    broker = harness.reopen(defaults=harness.broker.configure("other", backoff=[2, 3]))
    assert waits_of(broker, harness.clock) == [2, 3]


def test_max_attempts_beside_a_list_is_the_limit(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=[1, 2, 3], max_attempts=2) == [1]
    assert waits_of(broker, clock, backoff=[1, 2], max_attempts=5) == [1, 2, 2, 2]


def test_an_empty_list_retries_at_once(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=[], max_attempts=3) == [0, 0]


def test_an_empty_list_keeps_the_queues_limit(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", max_attempts=4)
    assert waits_of(broker, clock, backoff=[]) == [0, 0, 0]


def test_delays_may_be_timedeltas_and_fractions(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=[timedelta(minutes=1), 1.5]) == [60, 1.5]


def test_the_messages_backoff_beats_the_queues(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", backoff=linear(100))
    assert waits_of(broker, clock, backoff=[7]) == [7]


def test_the_queues_backoff_beats_the_servers(harness: Harness) -> None:
    broker = harness.reopen(defaults=Settings(backoff=linear(9), max_attempts=3))
    broker.configure("q", backoff=linear(4))
    assert waits_of(broker, harness.clock) == [4, 8]


def test_linear_grows_by_a_step_up_to_a_cap(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=linear(2), max_attempts=4) == [2, 4, 6]
    assert waits_of(broker, clock, backoff=linear(2, cap=5), max_attempts=5) == [2, 4, 5, 5]


def test_exponential_grows_by_a_factor_up_to_a_cap(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=exponential(1), max_attempts=5) == [1, 2, 4, 8]
    assert waits_of(broker, clock, backoff=exponential(2, factor=3, cap=10), max_attempts=5) == [2, 6, 10, 10]


def test_a_policy_that_is_no_list_keeps_the_queues_limit(broker: Broker, clock: ManualClock) -> None:
    assert waits_of(broker, clock, backoff=linear(1)) == [1, 2, 3, 4]


def first_waits(broker: Broker, clock: ManualClock, count: int, **options: Any) -> list[int]:
    """The first wait of many messages that fail together, in milliseconds."""
    sent = broker.send_many("q", list(range(count)), **options)
    broker.nack_many(broker.receive("q", max=count))
    return [(broker.get(id).due_at or 0) - clock.now() for id in sent]


def test_jitter_takes_a_random_share_off(broker: Broker, clock: ManualClock) -> None:
    waits = first_waits(broker, clock, 100, backoff=exponential(100, jitter=0.5))
    assert all(50_000 <= wait <= 100_000 for wait in waits)
    assert len(set(waits)) > 10


def test_plus_adds_a_random_time_between_its_bounds(broker: Broker, clock: ManualClock) -> None:
    waits = first_waits(broker, clock, 100, backoff=exponential(10, plus=(5, 25)))
    assert all(15_000 <= wait <= 35_000 for wait in waits)
    assert len(set(waits)) > 10


def test_without_jitter_chance_has_no_say(broker: Broker, clock: ManualClock) -> None:
    assert set(first_waits(broker, clock, 20, backoff=exponential(100))) == {100_000}


@pytest.mark.parametrize("delay", [7, 7.0, timedelta(seconds=7)])
def test_the_delay_of_a_nack_beats_every_policy(broker: Broker, clock: ManualClock, delay: Any) -> None:
    id = broker.send("q", "x", backoff=[100])
    broker.nack(take(broker), delay=delay)
    message = broker.get(id)
    assert (message.due_at, message.attempts) == (clock.now() + 7_000, 1)


def test_a_nack_without_delay_to_wait_is_ready_at_once(broker: Broker) -> None:
    broker.send("q", "x")
    broker.nack(take(broker), delay=0)
    assert take(broker).attempt == 2


def test_a_delay_gives_no_attempt_beyond_the_last(broker: Broker) -> None:
    id = broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker), delay=5)
    assert broker.get(id).state == State.DEAD


def test_a_release_comes_back_at_once(broker: Broker) -> None:
    broker.send("q", "x")
    broker.nack(take(broker), counts=False)
    assert take(broker).attempt == 1


def test_a_release_does_not_use_up_a_delay(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "x")
    broker.nack(take(broker))
    clock.advance(1)
    broker.nack(take(broker), counts=False)
    delivery = take(broker)
    broker.nack(delivery)
    assert broker.get(delivery.id).due_at == clock.now() + 5_000


def test_a_lost_lease_may_wait_like_a_nack(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", lease_expiry_backoff="nack")
    id = broker.send("q", "x")
    take(broker)
    clock.advance(31)
    assert broker.receive("q") == []
    message = broker.get(id)
    assert (message.state, message.due_at, message.attempts) == (State.SCHEDULED, clock.now() + 1_000, 1)
    clock.advance(1)
    assert take(broker).attempt == 2


@pytest.mark.parametrize(
    "backoff",
    [Delays((-5,)), Delays((1 << 60,)), Delays(("soon",)), Linear(-1), Exponential(1, factor=0.5), Exponential(1, plus_ms=(-1, 0))],  # type: ignore[arg-type]
    ids=repr,
)
def test_a_policy_that_is_not_possible_is_refused_however_it_was_made(broker: Broker, clock: ManualClock, backoff: Any) -> None:
    """Stored, it could not be read again, and would keep its whole queue from being received and maintained."""
    with pytest.raises(InvalidArgument, match="backoff"):
        broker.send("q", "x", backoff=backoff)
    with pytest.raises(InvalidArgument, match="backoff"):
        broker.send_many("q", [Draft("x", backoff=backoff)])
    with pytest.raises(InvalidArgument, match="backoff"):
        broker.configure("q", backoff=backoff)
    broker.send("q", "sound")
    take(broker)
    clock.advance(31)
    assert take(broker).attempt == 2


@pytest.mark.parametrize("form", [list, lambda delays: Delays(tuple(delays))])
def test_a_backoff_has_a_thousand_delays_at_most(broker: Broker, form: Any) -> None:
    broker.configure("q", backoff=form([0] * 1000))
    broker.send("q", "x", backoff=form([0] * 1000))
    with pytest.raises(InvalidArgument, match="1000"):
        broker.configure("q", backoff=form([0] * 1001))
    with pytest.raises(InvalidArgument, match="1000"):
        broker.send("q", "x", backoff=form([0] * 1001))
