"""By a broker: in process, or over HTTP, which is a broker too."""

from __future__ import annotations

import threading
from collections.abc import Callable

import rowq
from rowq.ids import receipt_of_delivery
from trust.torture.queues import QUEUES
from trust.torture.ways.hands import Parcel

LATER = 0.1
VERDICTS = ("ack", "nack", "release", "reject", "reschedule", "extend")


def connect(url: str, name: str, stop: threading.Event) -> rowq.Broker | None:
    """Tries until it works: a participant may be started while the database is away. None if it was told to end before."""
    while not stop.is_set():
        try:
            return rowq.connect(url) if url.startswith("http") else rowq.connect(url, actor=name)
        except rowq.RowqError:
            stop.wait(0.2)
    return None


class BrokerHands:
    queues = tuple(QUEUES)
    verdicts = VERDICTS
    tells_ids = True

    def __init__(self, broker: rowq.Broker) -> None:
        self._broker = broker

    def send(self, queue: str, drafts: list[rowq.Draft]) -> list[str]:
        if len(drafts) > 1:
            return self._broker.send_many(queue, drafts)
        draft = drafts[0]
        options = {"key": draft.key, "group": draft.group, "priority": draft.priority, "delay": draft.delay, "ttl": draft.ttl}
        return [self._broker.send(queue, draft.payload, id=draft.id, **options)]  # type: ignore[arg-type]  # as they are in a draft

    def receive(self, queue: str, most: int, wait: float, lease: float, tag: str) -> list[Parcel]:
        return [parcel_of(delivery) for delivery in self._broker.receive(queue, max=most, wait=wait, lease=lease, consumer=tag)]

    def settle(self, verb: str, receipts: list[str]) -> list[str]:
        return settle_by(self._broker, verb, receipts)

    def extend(self, receipt: str, lease: float) -> int:
        return self._broker.extend(receipt, lease)


def parcel_of(delivery: rowq.Delivery) -> Parcel:
    seq, token = receipt_of_delivery(delivery.receipt)
    return Parcel(delivery.receipt, seq, delivery.attempt, delivery.lease_until, delivery.payload["name"], delivery.group, token)


def settle_by(verbs: rowq.Broker | rowq.Within, verb: str, receipts: list[str]) -> list[str]:
    alone: dict[str, Callable[[str], None]] = {
        "ack": verbs.ack,
        "nack": lambda receipt: verbs.nack(receipt, reason="unwell"),
        "release": lambda receipt: verbs.nack(receipt, counts=False),
        "reject": lambda receipt: verbs.reject(receipt, reason="hopeless"),
        "reschedule": lambda receipt: verbs.reschedule(receipt, LATER),
    }
    if verb in alone:
        alone[verb](receipts[0])
        return ["done"]
    together: dict[str, Callable[[], list[rowq.Outcome]]] = {
        "ack_many": lambda: verbs.ack_many(receipts),
        "nack_many": lambda: verbs.nack_many(receipts, reason="unwell"),
        "release_many": lambda: verbs.nack_many(receipts, counts=False),
        "reject_many": lambda: verbs.reject_many(receipts, reason="hopeless"),
        "reschedule_many": lambda: verbs.reschedule_many(receipts, LATER),
    }
    return [outcome.value for outcome in together[verb]()]
