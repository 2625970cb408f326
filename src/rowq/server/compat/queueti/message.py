"""Messages as queue-ti shows them: its statuses, its counters, its times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import UNSET, Struct, UnsetType

from rowq.ids import message_id
from rowq.model.lifecycle import most_attempts
from rowq.model.message import Message, State
from rowq.model.payload import encode
from rowq.model.queue import Policy, dead_topic
from rowq.store.dialect import Row

MOST_RETRIES = (1 << 31) - 1
"""Shown for a message without a limit: the largest value of queue-ti's column."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OUTCOMES = {"expired": "expired", "failed": "failed"}


class MessageBody(Struct):
    """`payload` travels as base64."""

    id: str
    topic: str
    payload: bytes
    metadata: dict[str, str]
    key: str | None
    status: str
    retry_count: int
    max_retries: int
    last_error: str | None
    visibility_timeout: str | None
    expires_at: str | None
    original_topic: str | None
    dlq_moved_at: str | None
    created_at: str
    updated_at: str
    receipt: str | UnsetType = UNSET
    """Only in a delivery; queue-ti has no such field. A client that sends it back settles exactly this delivery, or nothing."""


def delivered(row: Row, message: Message, policy: Policy) -> MessageBody:
    """Combines a row of a receive with the message's current state."""
    seq, _, _, token, _, _, payload, _, sent_at, *_ = row
    body = to_body(message, policy)
    body.payload = payload
    body.receipt = f"{message_id(seq, sent_at)}.{token:016x}"
    return body


def to_body(message: Message, policy: Policy, changed_at: int = 0) -> MessageBody:
    """`changed_at`: the time of the last change, if the message itself does not record it."""
    is_dead = message.reason is not None
    status = status_of(message)
    changed_at = max(filter(None, (changed_at, message.sent_at, message.leased_at, message.died_at, message.finished_at)))
    return MessageBody(
        id=message.id,
        topic=dead_topic(message.queue) if is_dead else message.queue,
        payload=b"" if message.payload is None else encode(message.payload)[1],
        metadata=message.headers,
        key=message.key,
        status=status,
        retry_count=_nacks(message, status),
        max_retries=0 if is_dead else _retries(message, policy),
        last_error=message.error,
        visibility_timeout=_written(message.lease_until),
        expires_at=_written(_expires_at(message, policy)),
        original_topic=message.queue if is_dead else None,
        dlq_moved_at=_written(message.died_at),
        created_at=_written(message.sent_at) or "",
        updated_at=_written(changed_at) or "",
    )


def status_of(message: Message) -> str:
    match message.state:
        case State.LEASED:
            return "processing"
        case State.DEAD:
            return "pending" if message.due_at is not None else "failed"
        case State.FINISHED:
            return _OUTCOMES.get(message.outcome or "", "deleted")
    return "pending"


def _nacks(message: Message, status: str) -> int:
    """Attempts count deliveries; the current or acked one was not nacked, and a dead letter starts from zero."""
    if message.reason is not None:
        return int(status == "failed")
    return message.attempts - 1 if status in ("processing", "deleted") else message.attempts


def _retries(message: Message, policy: Policy) -> int:
    return (most_attempts(message.max_attempts, message.backoff, policy) or MOST_RETRIES + 1) - 1


def _expires_at(message: Message, policy: Policy) -> int | None:
    if message.died_at is not None:
        return message.died_at + policy.dlq_ttl_ms if policy.dlq_ttl_ms else None
    return message.expires_at


def _written(ms: int | None) -> str | None:
    """RFC 3339."""
    if ms is None:
        return None
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
