"""What a broker shows and what the model expects, in the same words, so that they can be compared."""

from __future__ import annotations

from typing import Any, overload

from rowq import Delivery, Message
from tests.histories.entry import Entry


@overload
def ms(seconds: float) -> int: ...
@overload
def ms(seconds: None) -> None: ...
def ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def in_words_of_the_model(draft: dict[str, Any], now: int) -> dict[str, Any]:
    """Seconds as milliseconds, a deadline as a moment."""
    words = dict(draft)
    for name in {"delay", "ttl", "deadline"} & set(words):
        words[name] = ms(words[name])
    if "deadline" in words:
        words["deadline"] += now
    if "backoff" in words:
        words["backoff"] = tuple(ms(delay) for delay in words["backoff"])
    return words


def of_delivery(delivery: Delivery) -> tuple[Any, ...]:
    return delivery.id, delivery.payload, delivery.attempt, delivery.lease_until, delivery.key, delivery.group, delivery.priority


def expected_delivery(entry: Entry) -> tuple[Any, ...]:
    attempt = entry.attempts if entry.reason is None else entry.redeliveries
    return entry.id, entry.payload, attempt, entry.lease_until, entry.key, entry.group, entry.priority


def of_message(message: Message) -> dict[str, Any]:
    common = {"state": message.state, "payload": message.payload, "key": message.key, "group": message.group}
    match message.state:
        case "finished":
            return common | {"outcome": message.outcome}
        case "dead":
            return common | {"attempts": message.attempts, "reason": message.reason, "due": message.due_at}
        case "leased":
            return common | {"attempts": message.attempts, "reason": message.reason, "until": message.lease_until}
        case "scheduled":
            return common | {"attempts": message.attempts, "due": message.due_at, "expires_at": message.expires_at}
    return common | {"attempts": message.attempts, "expires_at": message.expires_at}


def as_expected(entry: Entry) -> dict[str, Any]:
    payload = entry.payload if entry.has_body else None
    common = {"state": entry.state, "payload": payload, "key": entry.key, "group": entry.group}
    match entry.state:
        case "finished":
            return common | {"outcome": entry.outcome}
        case "dead":
            return common | {"attempts": entry.attempts, "reason": entry.reason, "due": entry.due}
        case "leased":
            return common | {"attempts": entry.attempts, "reason": entry.reason, "until": entry.lease_until}
        case "scheduled":
            return common | {"attempts": entry.attempts, "due": entry.due, "expires_at": entry.expires_at}
    return common | {"attempts": entry.attempts, "expires_at": entry.expires_at}
