"""Heralds: carry hints from one process to the others. A hint may be late, doubled or lost; nobody's correctness hangs on it."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated

import msgspec

_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Place = tuple[_Number, _Number]
"""Where in a queue something became ready: (ranking, position). Bounded, since a stranger's hint must not become a query that fails."""


class Notification(msgspec.Struct, array_like=True):
    """What one process tells the others after it has committed."""

    ready: dict[str, tuple[int, Place | None]] = {}
    """By topic: how many messages became ready, and the lowest place among them, where there is an order."""
    settings: bool = False
    """Somebody changed the settings of a queue."""

    def add(self, other: Notification) -> None:
        """Together they tell what each would have told."""
        self.settings |= other.settings
        for topic, (count, place) in other.ready.items():
            known = self.ready.get(topic)
            self.ready[topic] = (count, place) if known is None else (known[0] + count, _lower(known[1], place))


class Notifier(ABC):
    """One process's way to tell the others. Hears everything but itself."""

    def __init__(self) -> None:
        self.me = secrets.token_hex(8)

    @abstractmethod
    def listen(self, hear: Callable[[Notification], None]) -> None:
        """From now on `hear` is called for what others tell, from a thread of the herald's own."""

    @abstractmethod
    def tell(self, notification: Notification) -> None:
        """Soon, together with what else is told in that moment. Never waits, and never raises."""

    @abstractmethod
    def is_heard(self) -> bool:
        """Whether hints arrive at present; while they do not, everybody looks more often."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """In the child of a fork: lets go of inherited connections without a word to the other side."""

    @abstractmethod
    def close(self) -> None: ...


def _lower(one: Place | None, other: Place | None) -> Place | None:
    if one is None or other is None:
        return one or other
    return min(one, other)
