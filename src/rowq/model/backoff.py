"""Backoff policies as users write them, in seconds."""

from __future__ import annotations

from rowq.errors import InvalidArgument
from rowq.model.duration import Duration, to_ms
from rowq.model.retry import Exponential, Linear, check_backoff


def linear(step: Duration, cap: Duration = 3600) -> Linear:
    """step, 2 x step, 3 x step …, never over cap."""
    return Linear(to_ms(step, "step"), to_ms(cap, "cap"))


def exponential(
    base: Duration, factor: float = 2.0, cap: Duration = 3600, jitter: float = 0.0, plus: tuple[Duration, Duration] = (0, 0)
) -> Exponential:
    """base, base x factor, base x factor² …, never over cap; less a random share of up to `jitter`, plus a random time within `plus`."""
    try:
        low, high = plus
    except (TypeError, ValueError):
        raise InvalidArgument(f"plus must be two durations, the minimum and the maximum to add, not {plus!r}") from None
    return check_backoff(Exponential(to_ms(base, "base"), factor, to_ms(cap, "cap"), jitter, (to_ms(low, "plus"), to_ms(high, "plus"))))
