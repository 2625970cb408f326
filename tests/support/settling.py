"""The five verbs that settle a delivery or renew it, as a table: what holds for one receipt must hold for every verb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rowq import Broker, Delivery, Outcome

Settle = Callable[[Broker, Any], object]
SettleMany = Callable[[Broker, Sequence[Delivery | str]], list[Outcome]]

SETTLES: dict[str, Settle] = {
    "ack": lambda broker, delivery: broker.ack(delivery),
    "nack": lambda broker, delivery: broker.nack(delivery, reason="boom"),
    "release": lambda broker, delivery: broker.nack(delivery, counts=False),
    "reject": lambda broker, delivery: broker.reject(delivery, reason="boom"),
    "reschedule": lambda broker, delivery: broker.reschedule(delivery, 60),
    "extend": lambda broker, delivery: broker.extend(delivery, 60),
}

SETTLES_MANY: dict[str, SettleMany] = {
    "ack_many": lambda broker, deliveries: broker.ack_many(deliveries),
    "nack_many": lambda broker, deliveries: broker.nack_many(deliveries, reason="boom"),
    "reject_many": lambda broker, deliveries: broker.reject_many(deliveries, reason="boom"),
    "reschedule_many": lambda broker, deliveries: broker.reschedule_many(deliveries, 60),
    "extend_many": lambda broker, deliveries: broker.extend_many(deliveries, 60),
}

FINAL = {verb: settle for verb, settle in SETTLES.items() if verb != "extend"}

every_settle = pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
every_final_settle = pytest.mark.parametrize("settle", FINAL.values(), ids=FINAL)
every_settle_many = pytest.mark.parametrize("settle_many", SETTLES_MANY.values(), ids=SETTLES_MANY)


def forged(delivery: Delivery, *, token_of: Delivery | None = None) -> str:
    """A receipt that looks right: the message of one delivery, with another's token or one that nobody was given."""
    message, token = delivery.receipt.rsplit(".", 1)
    if token_of is not None:
        return f"{message}.{token_of.receipt.rsplit('.', 1)[1]}"
    return f"{message}.{int(token, 16) ^ 1:016x}"
