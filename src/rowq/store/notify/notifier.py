"""Notifiers carry hints from one process to the others. A hint may be late, duplicated or lost: correctness never depends on it."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated

import msgspec

_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Place = tuple[_Number, _Number]
"""Where in a queue something became ready: (ranking, position). Bounded, so that a foreign hint cannot make a query fail."""


class Notification(msgspec.Struct, array_like=True):
    """What one process tells the others after a commit."""

    ready: dict[str, tuple[int, Place | None]] = {}
    """By topic: how many messages became ready, and the lowest place among them, if the topic has an order."""
    settings: bool = False
    """The settings of a queue have changed."""

    def add(self, other: Notification) -> None:
        """Merges another notification into this one."""
        self.settings |= other.settings
        for topic, (count, place) in other.ready.items():
            known = self.ready.get(topic)
            self.ready[topic] = (count, place) if known is None else (known[0] + count, _lower(known[1], place))


class Notifier(ABC):
    """Connects one process with the others. It does not receive its own notifications."""

    def __init__(self) -> None:
        self.me = secrets.token_hex(8)

    @abstractmethod
    def listen(self, hear: Callable[[Notification], None]) -> None:
        """From now on `hear` is called for each notification of another process, in a thread of the notifier."""

    @abstractmethod
    def tell(self, notification: Notification) -> None:
        """Sends it soon, together with other notifications of that moment. Never waits and never raises."""

    @abstractmethod
    def is_heard(self) -> bool:
        """Whether hints arrive at present; while they do not, waiting receives poll more often."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: drops the inherited connections without sending anything on them."""

    @abstractmethod
    def close(self) -> None: ...


def _lower(one: Place | None, other: Place | None) -> Place | None:
    if one is None or other is None:
        return one or other
    return min(one, other)
