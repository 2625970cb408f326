"""The verbs inside the caller's own transaction: the outbox. What they do holds if, and only if, the caller commits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from rowq.arguments import Settled, lease_lost, listed, to_nack, to_receipt_or_none, to_reject, to_reschedule, to_send
from rowq.model.lifecycle import Ack, NackLimit, Verdict
from rowq.model.message import Draft, Duration, Outcome, Payload, SendOptions
from rowq.store.calls import Settle
from rowq.store.lane import Lane
from rowq.store.store import Store


class Within:
    """Made by `broker.within(connection)`.

    >>> with sqlite3.connect("shop.db") as connection:  # doctest: +SKIP
    ...     connection.execute("INSERT INTO orders …")
    ...     broker.within(connection).send("emails", {"order": 7})
    """

    def __init__(self, store: Store, connection: Any) -> None:
        self._store = store
        self._connection = connection

    def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        return self.send_many(queue, [payload], **options)[0]

    def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        call = to_send(queue, payloads, options)
        if call.messages:
            Lane(self._store, patient=True).perform_within(self._connection, call)
        return call.result or []

    def ack(self, delivery: Settled) -> None:
        self._settle(delivery, Ack())

    def nack(
        self,
        delivery: Settled,
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> None:
        self._settle(delivery, to_nack(reason, delay, counts, limit))

    def reject(self, delivery: Settled, *, reason: str | None = None) -> None:
        self._settle(delivery, to_reject(reason))

    def reschedule(self, delivery: Settled, delay: Duration, *, reason: str | None = None) -> None:
        self._settle(delivery, to_reschedule(delay, reason))

    def ack_many(self, deliveries: Iterable[Settled]) -> list[Outcome]:
        return self._settle_many(deliveries, Ack())

    def nack_many(
        self,
        deliveries: Iterable[Settled],
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> list[Outcome]:
        return self._settle_many(deliveries, to_nack(reason, delay, counts, limit))

    def reject_many(self, deliveries: Iterable[Settled], *, reason: str | None = None) -> list[Outcome]:
        return self._settle_many(deliveries, to_reject(reason))

    def reschedule_many(self, deliveries: Iterable[Settled], delay: Duration, *, reason: str | None = None) -> list[Outcome]:
        return self._settle_many(deliveries, to_reschedule(delay, reason))

    def _settle(self, delivery: Settled, verdict: Verdict) -> None:
        if self._settle_many([delivery], verdict)[0] is not Outcome.DONE:
            raise lease_lost(delivery)

    def _settle_many(self, deliveries: Iterable[Settled], verdict: Verdict) -> list[Outcome]:
        call = Settle([to_receipt_or_none(delivery) for delivery in listed(deliveries, "deliveries")], verdict)
        if call.receipts:
            Lane(self._store, patient=True).perform_within(self._connection, call)
        return call.result or []
