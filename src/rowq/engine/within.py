"""The verbs inside the caller's own transaction: the outbox. Their effects hold if, and only if, the caller commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, TypeVar, Unpack
from weakref import WeakKeyDictionary

from rowq.engine.arguments import Settled, lease_lost, to_nack, to_reject, to_reschedule, to_send, to_settle
from rowq.engine.executor import Executor
from rowq.model.duration import Duration
from rowq.model.lifecycle import Ack, NackLimit, Settlement
from rowq.model.message import Draft, Outcome, Payload, SendOptions
from rowq.store.app_connection import unwrap, unwrap_async
from rowq.store.call import Call
from rowq.store.store import Store

T = TypeVar("T")


class Within:
    """Made by `broker.within(connection)`.

    >>> with sqlite3.connect("shop.db") as connection:  # doctest: +SKIP
    ...     connection.execute("INSERT INTO orders …")
    ...     broker.within(connection).send("emails", {"order": 7})
    """

    def __init__(self, store: Store, connection: Any) -> None:
        """`connection`: of a driver, or a session or connection of SQLAlchemy or Django."""
        self._store = store
        self._connection = connection

    def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        return self.send_many(queue, [payload], **options)[0]

    def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        call = to_send(queue, payloads, options)
        if call.messages:
            self._perform(call)
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

    def _settle(self, delivery: Settled, settlement: Settlement) -> None:
        if self._settle_many([delivery], settlement)[0] is not Outcome.DONE:
            raise lease_lost(delivery)

    def _settle_many(self, deliveries: Iterable[Settled], settlement: Settlement) -> list[Outcome]:
        call = to_settle(deliveries, settlement)
        if call.receipts:
            self._perform(call)
        return call.result or []

    def _perform(self, call: Call[Any]) -> None:
        Executor(self._store, patient=True).perform_within(unwrap(self._connection), call)


class AsyncWithin:
    """The same verbs as coroutines. Made by `broker.within(connection)` of an AsyncBroker for a connection that is itself awaited.

    >>> async with AsyncSession(engine) as session, session.begin():  # doctest: +SKIP
    ...     session.add(Order(number=7))
    ...     await broker.within(session).send("emails", {"order": 7})
    """

    def __init__(self, store: Store, connection: Any) -> None:
        self._store = store
        self._connection = connection

    async def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        return await self._do(lambda verbs: verbs.send(queue, payload, **options))

    async def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        return await self._do(lambda verbs: verbs.send_many(queue, payloads, **options))

    async def ack(self, delivery: Settled) -> None:
        await self._do(lambda verbs: verbs.ack(delivery))

    async def nack(
        self,
        delivery: Settled,
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> None:
        await self._do(lambda verbs: verbs.nack(delivery, reason=reason, delay=delay, counts=counts, limit=limit))

    async def reject(self, delivery: Settled, *, reason: str | None = None) -> None:
        await self._do(lambda verbs: verbs.reject(delivery, reason=reason))

    async def reschedule(self, delivery: Settled, delay: Duration, *, reason: str | None = None) -> None:
        await self._do(lambda verbs: verbs.reschedule(delivery, delay, reason=reason))

    async def ack_many(self, deliveries: Iterable[Settled]) -> list[Outcome]:
        return await self._do(lambda verbs: verbs.ack_many(deliveries))

    async def nack_many(
        self,
        deliveries: Iterable[Settled],
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> list[Outcome]:
        return await self._do(lambda verbs: verbs.nack_many(deliveries, reason=reason, delay=delay, counts=counts, limit=limit))

    async def reject_many(self, deliveries: Iterable[Settled], *, reason: str | None = None) -> list[Outcome]:
        return await self._do(lambda verbs: verbs.reject_many(deliveries, reason=reason))

    async def reschedule_many(self, deliveries: Iterable[Settled], delay: Duration, *, reason: str | None = None) -> list[Outcome]:
        return await self._do(lambda verbs: verbs.reschedule_many(deliveries, delay, reason=reason))

    async def _do(self, verb: Callable[[Within], T]) -> T:
        from rowq.store.server.greenlet_bridge import run_in_greenlet  # needs greenlet, which comes with the driver

        async with AsyncExitStack() as turns:
            await turns.enter_async_context(_turn_of(self._connection))
            connection = await unwrap_async(self._connection)
            if connection is not self._connection:
                await turns.enter_async_context(_turn_of(connection))
            return await run_in_greenlet(lambda: verb(Within(self._store, connection)))


_turns: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()


def _turn_of(held: Any) -> asyncio.Lock:
    """Verbs on one connection run one after another, whichever `within` they use: each has its own savepoint, and savepoints nest."""
    return _turns.setdefault(held, asyncio.Lock())
