"""One message away, whatever its state."""

from __future__ import annotations

import pytest

from rowq import Broker, LeaseLost, MessageNotFound
from tests.support.life import assert_gone, depths, history_of, one_of_each, take

EVERY_STATE = ["ready", "scheduled", "leased", "blocked", "dead", "finished"]


@pytest.mark.parametrize("state", EVERY_STATE)
def test_a_message_is_deleted_in_every_state(broker: Broker, state: str) -> None:
    each = one_of_each(broker)
    broker.delete(each[state])
    assert_gone(broker, each[state])
    rest = {other: 1 for other in each if other != state}
    if state == "ready":
        rest = {**rest, "ready": 1}
        del rest["blocked"]
    assert depths(broker) == rest
    assert history_of(broker, each[state])[-1] == "deleted"


def test_a_message_is_deleted_once(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.delete(id)
    with pytest.raises(MessageNotFound) as error:
        broker.delete(id)
    assert error.value.code == "message_not_found"


def test_it_is_told_among_the_actions(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.delete(id)
    assert [(event.event, event.detail) for event in broker.actions("q")] == [("message_deleted", id)]


@pytest.mark.parametrize("id", ["", "nonsense", "0190163d-8694-7000-8000-00000000002a"])
def test_what_is_not_there_cannot_be_deleted(broker: Broker, id: str) -> None:
    with pytest.raises(MessageNotFound):
        broker.delete(id)


def test_the_lease_of_a_deleted_message_is_lost(broker: Broker) -> None:
    id = broker.send("q", "x")
    delivery = take(broker)
    broker.delete(id)
    with pytest.raises(LeaseLost):
        broker.nack(delivery)
    assert depths(broker) == {}


def test_an_acked_message_that_was_not_kept_cannot_be_deleted(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.ack(take(broker))
    with pytest.raises(MessageNotFound):
        broker.delete(id)
