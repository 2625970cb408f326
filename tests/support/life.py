"""Short ways to say what happens to a message, in verbs only. The queue is "q" unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rowq import Broker, Delivery, ManualClock, Message, MessageNotFound, QueueNotFound, State


def take(broker: Broker, queue: str = "q", **options: Any) -> Delivery:
    """The next delivery; there must be one."""
    deliveries = broker.receive(queue, **options)
    assert len(deliveries) == 1, f"expected a delivery of {queue!r}, got {deliveries}"
    return deliveries[0]


def is_silent(broker: Broker, queue: str = "q") -> bool:
    """Nothing can be received now. Leases what is there, so it is for messages that must not come."""
    return broker.receive(queue, max=1000) == []


def payloads(messages: Iterable[Delivery | Message]) -> list[Any]:
    return [message.payload for message in messages]


def ids(messages: Iterable[Delivery | Message]) -> list[str]:
    return [message.id for message in messages]


def drain(broker: Broker, queue: str = "q") -> list[Any]:
    """Receive and ack until nothing comes; the payloads in order of delivery."""
    drained: list[Any] = []
    while deliveries := broker.receive(queue, max=1000):
        broker.ack_many(deliveries)
        drained += payloads(deliveries)
    return drained


def bury(broker: Broker, payload: Any = "x", queue: str = "q", *, reason: str | None = None, **options: Any) -> str:
    """Send a message and reject it: a dead letter. Nothing else may be waiting in the queue."""
    id = broker.send(queue, payload, **options)
    delivery = take(broker, queue)
    assert delivery.id == id
    broker.reject(delivery, reason=reason)
    return id


def pass_time(broker: Broker, clock: ManualClock, seconds: float) -> None:
    """Time goes by, and everything that it makes necessary is done."""
    clock.advance(seconds)
    broker.maintain()


def crash(broker: Broker, clock: ManualClock, queue: str = "q") -> None:
    """A consumer takes the next message and is never heard of again; maintenance finds out."""
    take(broker, queue)
    pass_time(broker, clock, 40)


def delete_while_leased(broker: Broker, id: str) -> None:
    assert take(broker).id == id
    broker.delete(id)


def purge_while_leased(broker: Broker) -> None:
    take(broker)
    broker.purge("q", states=["leased"])


def nack_until_dead(broker: Broker, clock: ManualClock, id: str, queue: str = "q") -> list[float]:
    """Let every delivery fail; the seconds between the deliveries, one fewer than there were deliveries."""
    waits: list[float] = []
    for attempt in range(1, 50):
        delivery = take(broker, queue)
        assert (delivery.id, delivery.attempt) == (id, attempt)
        broker.nack(delivery, reason=f"failure {attempt}")
        message = broker.get(id)
        if message.state == State.DEAD:
            return waits
        waits.append((due_at(message, clock) - clock.now()) / 1000)
        clock.advance(waits[-1])
    raise AssertionError(f"{id} is delivered for ever")


def due_at(message: Message, clock: ManualClock) -> int:
    """When the message may be received: its due time, or now when it is ready."""
    return clock.now() if message.state == State.READY else message.due_at or 0


def comes_after(broker: Broker, clock: ManualClock, seconds: float, queue: str = "q") -> Delivery:
    """The next delivery comes when `seconds` have passed, and not sooner (to a fifth of a second)."""
    clock.advance(seconds - 0.2)
    assert is_silent(broker, queue)
    clock.advance(0.2)
    return take(broker, queue)


def depths(broker: Broker, queue: str = "q") -> dict[str, int]:
    """How many messages are in which state; empty states are left out. A queue that does not exist has none."""
    try:
        stats = broker.stats(queue)
    except QueueNotFound:
        return {}
    counts = {state.value: getattr(stats, state.value) for state in State}
    return {state: count for state, count in counts.items() if count}


def state_of(broker: Broker, id: str, *, queue: str | None = None) -> State:
    return broker.get(id, queue=queue).state


def assert_gone(broker: Broker, id: str, *, queue: str | None = None) -> None:
    with pytest.raises(MessageNotFound):
        broker.get(id, queue=queue)


def one_of_each(broker: Broker) -> dict[str, str]:
    """A queue with one message in every state, and their ids."""
    broker.configure("q", keep="body")
    each = {"finished": broker.send("q", "finished")}
    drain(broker)
    each["dead"] = bury(broker, "dead")
    each["leased"] = broker.send("q", "leased")
    take(broker)
    each["ready"] = broker.send("q", "ready", group="g")
    each["blocked"] = broker.send("q", "blocked", group="g")
    each["scheduled"] = broker.send("q", "scheduled", delay=60)
    assert depths(broker) == dict.fromkeys(each, 1)
    return each


def history_of(broker: Broker, id: str) -> list[str]:
    """The names of what happened to a message, oldest first."""
    return [event.event for event in broker.audit(id)]
