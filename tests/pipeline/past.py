"""Things that happened to messages, for archives and reports to tell of."""

from __future__ import annotations

from typing import Any

import rowq


def work_off(broker: rowq.Broker, count: int, queue: str = "orders", *, keep: str = "body", consumer: str = "worker-1") -> list[str]:
    """Messages that were sent and acked; their ids."""
    broker.configure(queue, keep=keep)  # type: ignore[arg-type]  # one of three words
    ids = broker.send_many(queue, [{"order": number} for number in range(count)], headers={"shop": "berlin"})
    for delivery in broker.receive(queue, max=count, consumer=consumer):
        broker.ack(delivery)
    return ids


def let_die(broker: rowq.Broker, reasons: list[str], queue: str = "orders") -> list[str]:
    """Dead letters, each rejected for a reason of its own; their ids."""
    broker.send_many(queue, [{"doomed": reason} for reason in reasons])
    for delivery in broker.receive(queue, max=len(reasons), consumer="worker-2"):
        broker.reject(delivery, reason=delivery.payload["doomed"])
    return [letter.id for letter in broker.browse(queue, state="dead", limit=1000)]


def payloads(broker: rowq.Broker, queue: str) -> list[Any]:
    """All that waits in a queue."""
    return [message.payload for message in broker.browse(queue, limit=1000)]
