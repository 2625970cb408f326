"""Locks out addresses that send too many wrong keys, for a while. Counted by address, in bounded memory."""

from __future__ import annotations

import ipaddress
import math
from collections import deque
from collections.abc import Callable

from rowq.errors import TooManyFailures

FAILURES = 10
WITHIN = 60.0
LOCKED_FOR = 60.0
MOST_ADDRESSES = 10_000


class LockedOut(TooManyFailures):
    """`retry_after`: seconds until the lockout ends."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many wrong keys came from this address: fix the key, and try again in {retry_after} s")
        self.retry_after = retry_after


class Lockout:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, deque[float]] = {}

    def check(self, address: str) -> None:
        if not self._failures:
            return
        place = _place(address)
        times = self._failures.get(place)
        if times is None or len(times) < FAILURES or times[-1] - times[0] > WITHIN:
            return
        left = times[-1] + LOCKED_FOR - self._monotonic()
        if left > 0:
            raise LockedOut(math.ceil(left))
        del self._failures[place]

    def failed(self, address: str) -> None:
        """Keeps the addresses ordered by their last failure, so that the first is the one to drop."""
        place = _place(address)
        times = self._failures.pop(place, None) or deque(maxlen=FAILURES)
        times.append(self._monotonic())
        self._failures[place] = times
        while len(self._failures) > MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]


def _place(address: str) -> str:
    """A client with one IPv6 address has a whole /64 network, so these are counted by their first half."""
    if ":" not in address:
        return address
    try:
        known = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Address(int(known) >> 64 << 64))
