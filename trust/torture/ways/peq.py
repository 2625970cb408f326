"""By PEQ's procedures on PostgreSQL: plain SQL, each call part of the client's own transaction."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import psycopg
from psycopg.sql import SQL, Identifier

import rowq
from trust.torture.queues import IN_SQL
from trust.torture.ways.hands import DriverFailed, Parcel, Refused, Undone
from trust.torture.ways.own import Own
from trust.torture.ways.within import ROLLED_BACK

T = TypeVar("T")

_REFUSALS = {"55000": "lease_lost", "53400": "queue_full", "23505": "id_taken"}
_PROCEDURES = {"ack": "message_ack", "nack": "message_nak", "reject": "message_rej"}
_NOBODY = UUID(int=0)


class PeqHands:
    queues = IN_SQL
    verdicts = tuple(_PROCEDURES)
    tells_ids = False

    def __init__(self, url: str, choose: random.Random, pause: Callable[[float], object]) -> None:
        self._own = Own(url)
        self._choose = choose
        self._pause = pause

    def send(self, queue: str, drafts: list[rowq.Draft]) -> list[str]:
        """Ids are the caller's own here: enqueue tells none."""

        def enqueue(connection: Any) -> list[str]:
            for draft in drafts:
                body = msgspec.json.encode(draft.payload).decode()
                connection.execute(
                    SQL("CALL {}.enqueue(%s::json, %s::uuid, %s)").format(Identifier(queue)),
                    (body, draft.id, round(float(str(draft.delay)))),
                )
            return [draft.id or "" for draft in drafts]

        return self._transact(enqueue)

    def receive(self, queue: str, most: int, wait: float, lease: float, tag: str) -> list[Parcel]:  # noqa: ARG002
        """One at a time, also where several are wanted; and whoever finds nothing waits here, not in the database."""

        def dequeue(connection: Any) -> list[Parcel]:
            query = SQL("SELECT msg_id, extract(epoch FROM expires) * 1000, msg_json FROM {}.dequeue(%s, %s)").format(Identifier(queue))
            id, until, body = connection.execute(query, (tag, int(lease))).fetchone()
            if id == _NOBODY:
                return []
            return [Parcel(f"{queue} {id} {tag}", str(id), None, int(until), body["name"], None, None)]

        parcels = self._transact(dequeue)
        if not parcels:
            self._pause(min(wait, 0.1))
        return parcels

    def settle(self, verb: str, receipts: list[str]) -> list[str]:
        """All in one transaction, or none of them where one is refused."""
        procedure = _PROCEDURES[verb.removesuffix("_many")]

        def conclude(connection: Any) -> list[str]:
            for receipt in receipts:
                queue, id, tag = receipt.split(" ")
                connection.execute(SQL("CALL {}.{}(%s::uuid, %s)").format(Identifier(queue), Identifier(procedure)), (id, tag))
            return ["done"] * len(receipts)

        return self._transact(conclude)

    def extend(self, receipt: str, lease: float) -> int:
        raise NotImplementedError("PEQ cannot extend a lease")

    def _transact(self, work: Callable[[Any], T]) -> T:
        connection = self._own.begin()
        try:
            answer = work(connection)
        except psycopg.Error as error:
            self._own.roll_back()
            if error.sqlstate in _REFUSALS:
                raise Refused(_REFUSALS[error.sqlstate], str(error)) from error
            raise DriverFailed(error) from error
        if self._choose.random() < ROLLED_BACK:
            self._own.roll_back()
            raise Undone
        self._own.commit()
        return answer
