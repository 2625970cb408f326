"""What is sent, and what becomes of it: most messages are plain, and a few percent are everything else that a queue can do.

A message's number alone decides its fate, so whoever receives it knows what to do, and the sums over all numbers can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import rowq

PLAIN, BODIES, MIXED, SINGLE = "plain", "bodies", "mixed", "single"
QUEUES = (PLAIN, BODIES, MIXED, SINGLE)

_SHARES = {PLAIN: 85, BODIES: 8, MIXED: 5, SINGLE: 2}
"""Of the turns, in percent."""
_SINGLES = 10
"""Messages of a turn that sends and settles them one by one."""
_DYING_ATTEMPTS = 2
_GROUPS = 200
_PADDING = "x" * 60


class Turn(NamedTuple):
    queue: str
    size: int


def settings(kept: float) -> dict[str, dict[str, Any]]:
    """Of each queue: what is finished, its audit and its dead letters are kept for so many seconds, so there is always some to remove."""
    short = {"retention": kept, "audit_retention": kept, "dlq_ttl": kept}
    return {
        PLAIN: {**short, "keep": "outcome"},
        BODIES: {**short, "keep": "body"},
        # A lease that runs out costs no attempt: a message only dies by an answer that somebody here has heard.
        MIXED: {**short, "keep": "outcome", "lease": 3, "max_attempts": 0, "backoff": [0.2, 0.5], "count_lease_expiry": False},
        SINGLE: {**short, "keep": "outcome"},
    }


def each(batch: int) -> list[Turn]:
    """One turn of every kind."""
    return [Turn(queue, _SINGLES if queue == SINGLE else batch) for queue in QUEUES]


def turns(chance: random.Random, batch: int) -> Iterator[Turn]:
    """For ever."""
    while True:
        yield from chance.choices(each(batch), [_SHARES[queue] for queue in QUEUES], k=100)


def drafts(queue: str, numbers: Sequence[int]) -> list[Any]:
    return [_mixed(number) for number in numbers] if queue == MIXED else [_payload(number) for number in numbers]


def number_of(delivery: rowq.Delivery) -> int:
    number: int = delivery.payload["number"]
    return number


class Fates(NamedTuple):
    """Deliveries, by what is to be done with them."""

    ack: list[rowq.Delivery]
    nack: list[rowq.Delivery]
    reject: list[rowq.Delivery]
    """Those that are in none of these are left until their lease runs out."""


def sort(deliveries: Sequence[rowq.Delivery]) -> Fates:
    fates = Fates([], [], [])
    for delivery in deliveries:
        match number_of(delivery) % 20 if delivery.queue == MIXED else None:
            case 0:
                fates.reject.append(delivery)
            case 1:
                fates.nack.append(delivery)
            case 2 | 3 if delivery.attempt == 1:
                fates.nack.append(delivery)
            case 4 if number_of(delivery) % 100 == 4 and delivery.lease_until % 4 == 0:
                continue  # whoever gets it next has another lease
            case _:
                fates.ack.append(delivery)
    return fates


def is_last(delivery: rowq.Delivery) -> bool:
    """Whether a nack is the end of it."""
    return delivery.queue == MIXED and number_of(delivery) % 20 == 1 and delivery.attempt >= _DYING_ATTEMPTS


def _payload(number: int) -> dict[str, Any]:
    return {"number": number, "text": _PADDING}


def _mixed(number: int) -> rowq.Draft:
    payload = _payload(number)
    match number % 20:
        case 1:
            return rowq.Draft(payload, max_attempts=_DYING_ATTEMPTS)
        case 5 | 6:
            return rowq.Draft(payload, delay=0.1 + number % 7 / 10)
        case 7 | 8:
            return rowq.Draft(payload, key=f"key-{number}")
        case 9 | 10 | 11:
            return rowq.Draft(payload, group=f"group-{number % _GROUPS}")
        case 12 | 13:
            return rowq.Draft(payload, id=f"own-{number}")
        case 14 | 15:
            return rowq.Draft(payload, ttl=3_600)
        case 16 | 17:
            return rowq.Draft(payload, priority=number % 5)
        case 18:
            return rowq.Draft(payload, headers={"trace": f"{number:x}"})
        case _:
            return rowq.Draft(payload)
