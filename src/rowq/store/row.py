"""What rows of the database mean: the objects that callers get, cursors, and runs of the audit."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec

from rowq.errors import InvalidArgument
from rowq.ids import SMALL_SEQ, message_id
from rowq.model.message import Delivery, Event, KvEntry, Message, State
from rowq.model.payload import decode, decode_json
from rowq.model.retry import Backoff
from rowq.store.dialect import Row


class DeliveryRow:
    """Positions in a row of a receive. Rows of hot queries stay tuples: a named tuple for each would cost more than two percent."""

    SEQ, QUEUE, ATTEMPT, TOKEN, UNTIL, FORMAT, PAYLOAD, HEADERS, SENT_AT, KEY, GROUP, PRIORITY, OWN_ID = range(13)
    END = 13


class ReadyRow:
    """Positions in a row of `{ready_row}` in leasing.sql; BODY are the columns of a delivery from FORMAT on."""

    SEQ, RANKING, POSITION, ATTEMPTS, EXPIRES_AT, ERROR, MARKS = range(7)
    BODY = slice(7, 15)
    SENT_AT, DEADLINE_MS, DELAY_MS = 10, 15, 16


class LeasedRow:
    """Positions in a row of `lock_leased`."""

    SEQ, TOKEN, QUEUE, MARKS, HAS_EXTRAS, ATTEMPTS, CONSUMER, LEASED_AT = range(8)


_headers = msgspec.json.Decoder(dict[str, str]).decode
_backoff = msgspec.json.Decoder(Backoff).decode


def to_deliveries(rows: list[Row]) -> list[Delivery]:
    """The rows of a receive as deliveries."""
    deliveries = []
    stem, stem_of = "", -1
    for seq, queue, attempt, token, until, format, payload, headers, sent_at, key, group, priority, own_id in rows:
        if seq >= SMALL_SEQ:
            id = message_id(seq, sent_at)
        else:
            if sent_at != stem_of:  # ids of messages sent together differ only in the last digits
                stem, stem_of = message_id(0, sent_at)[:-12], sent_at
            id = f"{stem}{seq:012x}"
        deliveries.append(
            Delivery(
                own_id or id,
                queue,
                decode_json(payload) if format else payload,
                _headers(headers) if headers else {},
                attempt,
                f"{id}.{token:016x}",
                until,
                sent_at,
                key,
                group,
                priority,
            )
        )
    return deliveries


def to_message(row: Row, state: State) -> Message:
    """A row of a browse_… or get_… query in insights.sql."""
    seq, queue, sent_at, format, payload, headers, key, group, priority, ttl_ms, deadline, max_attempts, backoff, kv_keys, own_id = row[:15]
    attempts, error, expires_at, due, lease_until, leased_at, consumer, reason, died_at, outcome, finished_at, *cursor = row[15:]
    return Message(
        id=own_id or message_id(seq, sent_at),
        queue=queue,
        state=state,
        payload=None if payload is None else decode(format, payload),
        headers=_headers(headers) if headers else {},
        priority=priority,
        attempts=attempts,
        sent_at=sent_at,
        key=key,
        group=group,
        ttl_ms=ttl_ms,
        deadline=deadline,
        max_attempts=max_attempts,
        backoff=_backoff(backoff) if backoff else None,
        keys_if_undelivered=msgspec.json.decode(kv_keys) if kv_keys else None,
        due_at=due,
        expires_at=expires_at,
        lease_until=lease_until,
        leased_at=leased_at,
        consumer=consumer,
        error=error,
        reason=reason,
        died_at=died_at,
        outcome=outcome,
        finished_at=finished_at,
        cursor=write_cursor(state, *cursor),
    )


def to_event(row: Row, id: str | None) -> Event:
    at, event, queue, _, attempt, actor, detail = row
    return Event(at=at, event=event, queue=queue, id=id, attempt=attempt, actor=actor, detail=detail)


def to_kv_entry(row: Row) -> KvEntry:
    entry_key, format, value, written_at, id = row
    return KvEntry(key=msgspec.json.decode(entry_key), value=decode(format, value), written_at=written_at, id=id)


_Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


def write_cursor(state: State, a: Any, b: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([state, a, b])).decode().rstrip("=")


def read_cursor(state: State, text: str) -> tuple[Any, int]:
    """The place in a state's order after which to continue."""
    first: Any = str if state is State.BLOCKED else _Number
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        named, a, b = msgspec.json.decode(data, type=tuple[State, first, _Number])
    except (ValueError, msgspec.MsgspecError):
        raise InvalidArgument("`after` is not a cursor: pass the .cursor of the last message of the previous page") from None
    if (isinstance(a, int) and abs(a) >> 62) or abs(b) >> 62:
        raise InvalidArgument("`after` is not a cursor: pass the .cursor of the last message of the previous page")
    if named is not state:
        raise InvalidArgument(f"`after` is a cursor of {named} messages, but {state} messages were requested")
    return a, b


BLOCK = 64
"""A row of the audit may be a run: the same event of messages of one block of this many seqs (decision 43). The SQL has the same number."""

FEW = 16
"""Fewer lines of a claim or of an ack are written one by one on PostgreSQL: grouping them costs as much as a dozen of them."""

AuditLine = tuple[int, str, int, str | None]
"""The seq, the queue, the attempt and the actor."""


def leads(seqs: Iterable[int]) -> list[int]:
    """What rows of the audit with lines of these messages have as their `seq`: that of the message, or for a run `lead`."""
    return sorted({number for seq in seqs for number in (seq, lead(seq))})


def lead(seq: int) -> int:
    """What a run has as its `seq`: -1 minus the number of the block."""
    return -1 - seq // BLOCK


def in_blocks(first: int, last: int) -> Iterator[list[int]]:
    """Consecutive seqs, in runs."""
    while first <= last:
        end = min(last, first | BLOCK - 1)
        yield list(range(first, end + 1))
        first = end + 1


def grouped(lines: Iterable[AuditLine]) -> Iterator[tuple[list[int], str, int, str | None]]:
    """Lines of the same event, in runs."""
    runs: defaultdict[tuple[int, str, int, str | None], list[int]] = defaultdict(list)
    for seq, queue, attempt, actor in lines:
        runs[seq // BLOCK, queue, attempt, actor].append(seq)
    for (_, queue, attempt, actor), seqs in runs.items():
        yield seqs, queue, attempt, actor
