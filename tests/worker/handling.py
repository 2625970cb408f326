"""Functions for consumers that remember what they were given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rowq import Delivery
from rowq.model.member import Membership
from rowq.worker.async_consumer import AsyncConsumer
from rowq.worker.consumer import Consumer
from tests.support.patience import eventually


class Notes:
    """Takes what it is given, and notes the payload and the attempt."""

    def __init__(self, act: Callable[[Delivery], object] = lambda delivery: None) -> None:
        self._act = act
        self.taken: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.taken.append(delivery)
        self._act(delivery)

    @property
    def payloads(self) -> list[Any]:
        return [delivery.payload for delivery in self.taken]

    def await_taken(self, count: int) -> list[Delivery]:
        eventually(lambda: len(self.taken) >= count)
        return self.taken[:count]


class Authenticator:
    """Stops whoever comes, until it is opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.arrived = threading.Semaphore(0)

    def __call__(self, delivery: Delivery) -> None:
        self.arrived.release()
        assert self._opened.wait(20), "nobody opened the gate"

    def await_arrivals(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.arrived.acquire(timeout=20), "nobody came"

    def open(self) -> None:
        self._opened.set()


def registered(consumer: Consumer | AsyncConsumer, *, other_than: str = "") -> Membership:
    """Its place among the consumers, once it has one."""

    def place() -> Membership | None:
        membership = consumer.membership
        return None if membership is None or membership.id == other_than else membership

    membership = eventually(place)
    assert membership is not None
    return membership
