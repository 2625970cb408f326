"""A verb for a queue that does not exist is an error with the name that may have been meant, and makes no queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowq import Broker, QueueNotFound, Where

VERBS: dict[str, Callable[[Broker], object]] = {
    "pause": lambda broker: broker.pause("emials"),
    "resume": lambda broker: broker.resume("emials"),
    "purge": lambda broker: broker.purge("emials"),
    "purge the dead": lambda broker: broker.purge("emials.dlq"),
    "redrive": lambda broker: broker.redrive("emials"),
    "redrive some": lambda broker: broker.redrive("emials", ids=["x"]),
    "delete_dead": lambda broker: broker.delete_dead("emials", where=Where(reason="rejected")),
    "delete_queue": lambda broker: broker.delete_queue("emials"),
    "stats": lambda broker: broker.stats("emials"),
    "browse": lambda broker: broker.browse("emials"),
    "browse the dead": lambda broker: broker.browse("emials.dlq", state="dead"),
    "failures": lambda broker: broker.failures("emials"),
    "actions": lambda broker: broker.actions("emials"),
    "settings": lambda broker: broker.settings("emials"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_mistyped_queue_is_not_found_and_not_made(broker: Broker, verb: str) -> None:
    broker.send("emails", 1)
    with pytest.raises(QueueNotFound, match=r"there is no queue 'emials'.*did you mean 'emails'"):
        VERBS[verb](broker)
    assert [stats.queue for stats in broker.queues()] == ["emails"]


def test_where_no_name_is_alike_none_is_named(broker: Broker) -> None:
    broker.send("emails", 1)
    with pytest.raises(QueueNotFound) as caught:
        broker.pause("invoices")
    assert "did you mean" not in str(caught.value)


def test_an_empty_queue_is_a_queue(broker: Broker) -> None:
    broker.configure("emails", max_attempts=3)
    assert (broker.stats("emails").depth, broker.browse("emails"), broker.purge("emails"), broker.redrive("emails")) == (0, [], 0, 0)
    assert broker.failures("emails").failures == []


def test_a_receive_is_not_an_error_and_makes_no_queue(broker: Broker) -> None:
    assert broker.receive("emails") == []
    assert broker.queues() == []
    broker.send("emails", 1)
    assert len(broker.receive("emails")) == 1


def test_what_was_done_to_a_queue_stays_known_when_it_is_gone(broker: Broker) -> None:
    broker.send("emails", 1)
    broker.delete_queue("emails")
    assert broker.actions("emails")[0].event == "queue_deleted"
    with pytest.raises(QueueNotFound):
        broker.stats("emails")
