"""Settling over HTTP: receipts and their settlement in a request, outcomes from its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rowq.client.bodies import SettleResult, read_results
from rowq.client.exchange import Exchange
from rowq.client.http import Answer
from rowq.engine.arguments import Settled, lease_lost
from rowq.engine.operation import Operation, in_pieces
from rowq.errors import InvalidReceipt, OutcomeUnknown
from rowq.model.lifecycle import Ack, Extend, Nack, Reject, Reschedule, Settlement
from rowq.model.message import Delivery, Outcome

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def receipt_of(delivery: object) -> str:
    """Text that cannot be a receipt is left to the server, which does not find it."""
    if isinstance(delivery, Delivery):
        return delivery.receipt
    if isinstance(delivery, str):
        return delivery if delivery.isascii() else ""
    raise InvalidReceipt(f"a delivery or its receipt is needed, not {type(delivery).__name__}")


def settle(receipts: list[str], settlement: Settlement | Extend, read: Callable[[Answer], T]) -> Exchange[T]:
    body: dict[str, Any] = {"receipts": receipts}
    match settlement:
        case Ack():
            target = "/v1/ack"
        case Nack(error=reason, delay=delay, counts=counts, limit=limit):
            target, body = "/v1/nack", {**body, "reason": reason, "delay_ms": delay, "counts": counts, "limit": limit}
        case Reject(error=reason):
            target, body = "/v1/reject", {**body, "reason": reason}
        case Reschedule(delay=delay, error=reason):
            target, body = "/v1/reschedule", {**body, "delay_ms": delay, "reason": reason}
        case Extend(lease_ms=lease):
            target, body = "/v1/extend", {**body, "lease_ms": lease}
    return Exchange(b"POST", target, _encode(body), read)


def settle_in_pieces(receipts: list[str], settlement: Settlement | Extend, size: int) -> Operation[list[Outcome]]:
    outcomes: list[Outcome] = []
    with in_pieces(lambda: len(outcomes), "deliveries"):
        for start in range(0, len(receipts), size):
            outcomes += yield settle(receipts[start : start + size], settlement, read_outcomes)
    return outcomes


def read_outcomes(answer: Answer) -> list[Outcome]:
    return [result.outcome for result in read_results(answer)]


def insist_done(results: list[SettleResult], delivery: Settled, answer: Answer) -> None:
    if results[0].outcome is Outcome.DONE:
        return
    if answer.is_repeat:
        raise OutcomeUnknown("the answer was lost, and the next try found the delivery no longer current: the first may have settled it")
    raise lease_lost(delivery)
