"""Idempotent requests: a retry gets the first answer, which was stored in the transaction that wrote the messages."""

from __future__ import annotations

import hashlib

import msgspec

from rowq.errors import RequestConflict, RowqError
from rowq.ids import message_ids, origin_of
from rowq.store.call import Send
from rowq.store.transaction import Transaction

KEPT_MS = 3_600_000
"""How long an answer is kept: longer than any client retries."""


class _Run(msgspec.Struct, frozen=True):
    """Consecutive ids: three numbers instead of thousands of strings."""

    first: int
    count: int
    sent_at: int


_Answer = list[str] | _Run
_answer = msgspec.json.Decoder(_Answer).decode


class Requests:
    """The requests with an idempotency key among calls of one transaction."""

    def __init__(self, tx: Transaction, calls: list[Send]) -> None:
        self._tx = tx
        self._fresh: dict[str, Send] = {}
        self._repeated: list[Send] = []
        ids = sorted({_id(call) for call in calls if call.request is not None})
        rows = tx.session.rows("find_requests", ids=ids) if ids else []
        self._answered = {id: (fingerprint, answer) for id, fingerprint, answer in rows}

    def settles(self, call: Send) -> bool:
        """True if the request is a repetition: there is nothing to write for it."""
        if call.request is None:
            return False
        id = _id(call)
        if id in self._answered:
            fingerprint, answer = self._answered[id]
            if fingerprint != _fingerprint(call):
                call.error = _conflict(call)
            else:
                call.result = _unpacked(_answer(answer))
            return True
        if id in self._fresh:
            self._repeated.append(call)
            return True
        self._fresh[id] = call
        return False

    def remember(self) -> None:
        """Stores the answers of new requests, and copies them to repetitions in the same transaction."""
        for id, call in self._fresh.items():
            if call.result is not None:
                answer = msgspec.json.encode(_packed(call.result, self._tx.now))
                self._tx.session.write("insert_request", id=id, at=self._tx.now, fingerprint=_fingerprint(call), answer=answer)
        for call in self._repeated:
            first = self._fresh[_id(call)]
            if _fingerprint(call) != _fingerprint(first):
                call.error = _conflict(call)
            else:
                call.result = first.result
                call.error = first.error if isinstance(first.error, RowqError) else None


def retire(tx: Transaction, limit: int) -> int:
    ids = [row[0] for row in tx.session.rows("list_old_requests", cutoff=tx.now - KEPT_MS, limit=limit)]
    if ids:
        tx.session.write("delete_requests", ids=ids)
    return len(ids)


def _id(call: Send) -> str:
    """Contains the actor: callers do not share idempotency keys."""
    return f"{call.queue}/{call.actor or ''}/{call.request}"


def _fingerprint(call: Send) -> bytes:
    """Excludes the headers: tracing gives each attempt a new one."""
    said = [msgspec.structs.replace(message, headers=None) for message in call.messages]
    return hashlib.blake2b(msgspec.msgpack.encode(said), digest_size=16).digest()


def _packed(ids: list[str], now: int) -> _Answer:
    origin = origin_of(ids[0]) if ids else None
    if origin is not None and message_ids(origin.seq, len(ids), now) == ids:
        return _Run(origin.seq, len(ids), now)
    return ids


def _unpacked(answer: _Answer) -> list[str]:
    return message_ids(answer.first, answer.count, answer.sent_at) if isinstance(answer, _Run) else answer


def _conflict(call: Send) -> RequestConflict:
    return RequestConflict(f"the idempotency key {call.request!r} was already used for other messages: use a new key for each request")
