"""When a failed message returns: the backoff policies, as values that also travel as JSON, and as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec

from rowq.errors import InvalidArgument
from rowq.model.duration import Duration, to_ms

Random = Callable[[], float]
"""Gives a number in [0, 1). Randomness is an argument, so that tests can control it."""

MAX_DELAYS = 1000
Millis = Annotated[int, msgspec.Meta(ge=0, le=366 * 86_400_000)]
PositiveMillis = Annotated[int, msgspec.Meta(ge=1, le=366 * 86_400_000)]
DelaysMs = Annotated[tuple[Millis, ...], msgspec.Meta(max_length=MAX_DELAYS)]


class Delays(msgspec.Struct, frozen=True, tag_field="kind", tag="list", forbid_unknown_fields=True):
    """One delay for each retry; the last one applies to all later retries. An empty list retries at once."""

    delays_ms: DelaysMs = ()


class Linear(msgspec.Struct, frozen=True, tag_field="kind", tag="linear", forbid_unknown_fields=True):
    """step, 2 x step, 3 x step …, never over cap."""

    step_ms: Millis
    cap_ms: Millis = 3_600_000


class Exponential(msgspec.Struct, frozen=True, tag_field="kind", tag="exponential", forbid_unknown_fields=True):
    """base, base x factor, base x factor² …, never over cap.

    `jitter` subtracts a random share of up to that fraction; `plus_ms` adds a random number between its two bounds.
    """

    base_ms: Millis
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 2.0
    cap_ms: Millis = 3_600_000
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    plus_ms: tuple[Millis, Millis] = (0, 0)


Backoff = Delays | Linear | Exponential
Checked = TypeVar("Checked", bound=Backoff)


def check_backoff(policy: Checked) -> Checked:
    """The field types define the limits, but are only enforced when decoding."""
    try:
        return msgspec.convert(msgspec.to_builtins(policy), type(policy))
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise InvalidArgument(f"this backoff is not possible: {error}") from None


def delay_ms(backoff: Backoff, retry: int, random: Random) -> int:
    """How long retry number `retry` (from 1) waits."""
    match backoff:
        case Delays(delays_ms=delays):
            return delays[min(retry, len(delays)) - 1] if delays else 0
        case Linear(step_ms=step, cap_ms=cap):
            return min(step * retry, cap)
        case Exponential():
            return _exponential_ms(backoff, retry, random)


def implied_attempts(backoff: Backoff) -> int | None:
    """A list of n delays given without max_attempts means n retries, so n + 1 deliveries; an empty list implies nothing."""
    return len(backoff.delays_ms) + 1 if isinstance(backoff, Delays) and backoff.delays_ms else None


def _exponential_ms(backoff: Exponential, retry: int, random: Random) -> int:
    try:
        full = min(backoff.base_ms * backoff.factor ** (retry - 1), backoff.cap_ms)
    except OverflowError:
        full = backoff.cap_ms
    low, high = backoff.plus_ms
    return round(full * (1 - backoff.jitter * random()) + low + (high - low) * random())


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
