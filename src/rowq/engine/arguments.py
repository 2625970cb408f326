"""From what a caller gave to the calls of the store, for every way in: broker, HTTP, compatible APIs. A single send is a `Send` itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from rowq.errors import InvalidArgument, InvalidReceipt, LeaseLost
from rowq.ids import NO_RECEIPT, Receipt, read_receipt, receipt_of_delivery
from rowq.model.draft import MAX_RECEIVE, MAX_SEND, prepare_many
from rowq.model.duration import Duration, optional_ms, to_ms
from rowq.model.lifecycle import Extend, Nack, NackLimit, Reject, Reschedule, Settlement
from rowq.model.member import Share, to_share
from rowq.model.message import Delivery, Outcome, SendOptions, Where
from rowq.model.page import check_where
from rowq.model.queue import DeliveryMode, check_own_name, split_name
from rowq.model.stream import check_batch, check_stream_name
from rowq.model.text import clean_text
from rowq.store.call import Receive, Send, Settle
from rowq.store.lookup import check_id

MAX_WAIT_MS = 3_600_000
MAX_QUARANTINE = 1_000
MAX_NOTE = 4_096
PIECE = 500

T = TypeVar("T")
Settled = Delivery | str


def to_send(queue: str, payloads: Iterable[Any], options: SendOptions) -> Send:
    name, chosen = check_own_name(queue), listed(payloads, "payloads")
    if len(chosen) > MAX_SEND:
        raise InvalidArgument(f"send_many takes at most {MAX_SEND} messages at once, not {len(chosen)}: send them in several calls")
    return Send(name, prepare_many(name, chosen, options))


class NewReceive(Protocol):
    def __call__(self, max: int | None = None) -> Receive: ...


def to_receive(
    queue: str,
    max: int = 1,
    *,
    lease_ms: int | None = None,
    consumer: str | None = None,
    delivery: DeliveryMode | None = None,
    share: Share | None = None,
    actor: str | None = None,
) -> NewReceive:
    """What makes the call, once for every attempt of a receive that waits; `max` may differ from attempt to attempt."""
    name, from_dead = split_name(queue)
    owner, part, usual = note(consumer, "consumer"), to_share(share, from_dead=from_dead), max

    def new_call(max: int | None = None) -> Receive:
        return Receive(
            name, usual if max is None else max, lease_ms, owner, from_dead=from_dead, delivery=delivery, share=part, actor=actor
        )

    return new_call


def to_settle(deliveries: Iterable[Settled], settlement: Settlement | Extend, actor: str | None = None) -> Settle:
    """Text that was never a receipt becomes one that matches nothing, so that it does not hold up the others."""
    return Settle([to_receipt_or_none(delivery) for delivery in listed(deliveries, "deliveries")], settlement, actor)


def to_settle_one(delivery: Settled, settlement: Settlement | Extend) -> Settle:
    return Settle([to_receipt(delivery)], settlement)


def to_receipt(delivery: object) -> Receipt:
    if isinstance(delivery, Delivery):
        return receipt_of_delivery(delivery.receipt)
    if isinstance(delivery, str):
        return read_receipt(delivery)
    raise InvalidReceipt(f"a delivery or its receipt is needed, not {type(delivery).__name__}")


def to_receipt_or_none(delivery: object) -> Receipt:
    try:
        return to_receipt(delivery)
    except InvalidReceipt:
        if not isinstance(delivery, str | Delivery):
            raise
        return NO_RECEIPT


def lease_lost(delivery: Settled) -> LeaseLost:
    name = f"the delivery of {delivery.id}" if isinstance(delivery, Delivery) else "this receipt"
    return LeaseLost(
        f"{name} is no longer current: its lease ran out and the message moved on, or it was settled already; nothing was changed"
    )


def insist_done(outcomes: list[Outcome], delivery: Settled) -> None:
    if outcomes[0] is not Outcome.DONE:
        raise lease_lost(delivery)


def to_nack(reason: str | None, delay: Duration | None, counts: bool, limit: NackLimit) -> Nack:
    if not isinstance(counts, bool):
        raise InvalidArgument(f"counts must be True or False, not {counts!r}")
    return Nack(note(reason, "reason"), optional_ms(delay, "delay"), counts, to_limit(limit))


def to_limit(limit: NackLimit) -> NackLimit:
    if limit not in ("attempts", "deadline"):
        raise InvalidArgument(f"limit must be attempts or deadline, not {limit!r}")
    return limit


def to_reject(reason: str | None) -> Reject:
    return Reject(note(reason, "reason"))


def to_reschedule(delay: Duration, reason: str | None) -> Reschedule:
    return Reschedule(to_ms(delay, "delay"), note(reason, "reason"))


def to_extend(lease: Duration | None) -> Extend:
    return Extend(optional_ms(lease, "lease", least=1))


def listed(values: Iterable[T], what: str) -> list[T]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{what} must be a list, not {type(values).__name__}")
    return list(values)


def distinct_ids(ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(check_id(id) for id in listed(ids, "ids")))


def dead_choice(ids: Iterable[str] | None, where: Where | None) -> tuple[list[str] | None, Where]:
    """Which dead letters are selected: those named by id, those that match `where`, those that do both, or all."""
    chosen = None if ids is None else distinct_ids(ids)
    if where is None:
        return chosen, Where()
    if not isinstance(where, Where):
        raise InvalidArgument(f"where must be rowq.Where(…), not {type(where).__name__}")
    check_where(where)
    return chosen, where


def insist_on_choice(ids: list[str] | None, where: Where) -> None:
    if ids is None and where == Where():
        raise InvalidArgument("say which dead letters to delete, by ids or by what they have in common; a purge removes all")


def receive_max(value: object, what: str = "max") -> int:
    if type(value) is not int or not 1 <= value <= MAX_RECEIVE:
        raise InvalidArgument(f"{what} must be between 1 and {MAX_RECEIVE}, not {value!r}")
    return value


def check_mode(delivery: object) -> None:
    if delivery not in (None, "at_least_once", "at_most_once"):
        raise InvalidArgument(f"delivery must be at_least_once or at_most_once, not {delivery!r}")


def check_quarantine(stream: str, batch: int, ids: Iterable[str]) -> tuple[str, int, list[str]]:
    chosen = distinct_ids(ids)
    if len(chosen) > MAX_QUARANTINE:
        raise InvalidArgument(f"at most {MAX_QUARANTINE} messages are quarantined at a time, not {len(chosen)}")
    return check_stream_name(stream), check_batch(batch), chosen


def note(text: object, what: str) -> str | None:
    """A reason or a name, truncated to the length that the database stores."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} must be text, not {type(text).__name__}")
    clean = clean_text(text)
    return clean if len(clean) <= MAX_NOTE else clean[: MAX_NOTE - 1] + "…"


def dead_limit(limit: object) -> int:
    if limit is None:
        return 1 << 62
    if type(limit) is not int or limit < 0:
        raise InvalidArgument(f"limit must be a whole number, not {limit!r}")
    return limit


def dead_piece(rate: object) -> int:
    """With a rate, about ten batches per second, so that consumers see a steady stream."""
    if rate is None:
        return PIECE
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate <= 1_000_000:
        raise InvalidArgument(f"rate must be messages a second, more than 0, not {rate!r}")
    return max(1, min(PIECE, int(rate / 10)))
