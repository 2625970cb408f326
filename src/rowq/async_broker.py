"""The broker for event loops: the verbs of broker.py as coroutines, on the same engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self, Unpack, overload

from rowq.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.async_operating import AsyncOperating
from rowq.model.lifecycle import Ack, NackLimit
from rowq.model.member import DEAD_AFTER, Membership, Share
from rowq.model.message import Delivery, Draft, Duration, Outcome, Payload, SendOptions
from rowq.model.queue import DeliveryMode
from rowq.store.app_connection import is_awaited
from rowq.within import AsyncWithin, Within
from rowq.workers.async_consumer import AsyncConsumer
from rowq.workers.async_producer import AsyncProducer
from rowq.workers.plan import ConsumerOptions, Process, to_plan


class AwaitedConnection(Protocol):
    """The AsyncConnection of psycopg, and the AsyncConnection and AsyncSession of SQLAlchemy."""

    def commit(self) -> Awaitable[None]: ...


class AsyncBroker(AsyncOperating):
    """The queue, in process, for coroutines. Made by `rowq.connect_async(url)`; the database is opened by `async with`.

    >>> async with rowq.connect_async("sqlite:///jobs.db") as broker:  # doctest: +SKIP
    ...     await broker.send("emails", {"to": "ada@example.com"})
    """

    async def send(self, queue: str, payload: Payload, **options: Unpack[SendOptions]) -> str:
        """As `Broker.send`, which lists the options."""
        return await self._drive(self._engine().verbs.send(queue, payload, options))

    async def send_many(self, queue: str, payloads: Iterable[Payload | Draft], **options: Unpack[SendOptions]) -> list[str]:
        return await self._drive(self._engine().verbs.send_many(queue, payloads, options))

    async def receive(
        self,
        queue: str,
        *,
        max: int = 1,
        wait: Duration = 0,
        lease: Duration | None = None,
        consumer: str | None = None,
        delivery: DeliveryMode | None = None,
        share: Share | None = None,
    ) -> list[Delivery]:
        """As `Broker.receive`, which lists the options."""
        return await self._drive(self._engine().verbs.receive(queue, max, wait, lease, consumer, delivery, share))

    async def ack(self, delivery: Settled) -> None:
        await self._drive(self._engine().verbs.settle(delivery, Ack()))

    async def nack(
        self,
        delivery: Settled,
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> None:
        await self._drive(self._engine().verbs.settle(delivery, to_nack(reason, delay, counts, limit)))

    async def reject(self, delivery: Settled, *, reason: str | None = None) -> None:
        await self._drive(self._engine().verbs.settle(delivery, to_reject(reason)))

    async def reschedule(self, delivery: Settled, delay: Duration, *, reason: str | None = None) -> None:
        await self._drive(self._engine().verbs.settle(delivery, to_reschedule(delay, reason)))

    async def extend(self, delivery: Settled, lease: Duration | None = None) -> int:
        return await self._drive(self._engine().verbs.extend(delivery, lease))

    async def ack_many(self, deliveries: Iterable[Settled]) -> list[Outcome]:
        return await self._drive(self._engine().verbs.settle_many(deliveries, Ack()))

    async def nack_many(
        self,
        deliveries: Iterable[Settled],
        *,
        reason: str | None = None,
        delay: Duration | None = None,
        counts: bool = True,
        limit: NackLimit = "attempts",
    ) -> list[Outcome]:
        return await self._drive(self._engine().verbs.settle_many(deliveries, to_nack(reason, delay, counts, limit)))

    async def reject_many(self, deliveries: Iterable[Settled], *, reason: str | None = None) -> list[Outcome]:
        return await self._drive(self._engine().verbs.settle_many(deliveries, to_reject(reason)))

    async def reschedule_many(self, deliveries: Iterable[Settled], delay: Duration, *, reason: str | None = None) -> list[Outcome]:
        return await self._drive(self._engine().verbs.settle_many(deliveries, to_reschedule(delay, reason)))

    async def extend_many(self, deliveries: Iterable[Settled], lease: Duration | None = None) -> list[Outcome]:
        return await self._drive(self._engine().verbs.settle_many(deliveries, to_extend(lease)))

    async def register(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> Membership:
        return await self._drive(self._engine().verbs.register(queue, dead_after))

    async def beat(self, queue: str, id: str, *, dead_after: Duration = DEAD_AFTER, remove_dead: bool = False) -> Membership:
        return await self._drive(self._engine().verbs.beat(queue, id, dead_after, remove_dead))

    async def unregister(self, queue: str, id: str) -> None:
        await self._drive(self._engine().verbs.unregister(queue, id))

    def producer(self, queue: str, *, batch_size: int = 1, linger: Duration = 0.05, **options: Unpack[SendOptions]) -> AsyncProducer:
        return AsyncProducer(self._engine(), queue, batch_size, linger, options)

    def consumer(self, queue: str, process: Process, **options: Unpack[ConsumerOptions]) -> AsyncConsumer:
        """As `Broker.consumer`, which lists the options."""
        return AsyncConsumer(self._engine(), to_plan(queue, process, options))

    @overload
    def within(self, connection: AwaitedConnection) -> AsyncWithin: ...

    @overload
    def within(self, connection: Any) -> Within: ...

    def within(self, connection: Any) -> Within | AsyncWithin:
        """As `Broker.within`. The verbs are coroutines where your connection is awaited as well; else they are plain methods, and it
        decides which thread they run in."""
        store = self._engine().store
        self._engine().check_open()
        return AsyncWithin(store, connection) if is_awaited(connection) and store.dialect.can_fly else Within(store, connection)

    async def close(self) -> None:
        if self._opened is not None:
            await asyncio.to_thread(self._opened.close)

    async def __aenter__(self) -> Self:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
