"""The broker for event loops: the verbs of broker.py as coroutines, on the same engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from rowq.deprecation import warn_renamed
from rowq.engine.arguments import Settled, to_extend, to_nack, to_reject, to_reschedule
from rowq.engine.bulk import Progress
from rowq.engine.engine import Engine
from rowq.engine.maintenance import MaintenanceResult
from rowq.engine.operation import Operation, SingleCall
from rowq.engine.within import AsyncWithin, Within
from rowq.errors import BrokerClosed
from rowq.model.access import ApiKey
from rowq.model.duration import Duration
from rowq.model.failure import Failures
from rowq.model.lifecycle import Ack, NackLimit
from rowq.model.member import DEAD_AFTER, ConsumerLook, Member, Membership, Share
from rowq.model.message import BrowseOptions, Delivery, Draft, Event, KvEntry, KvKey, Message, Outcome, Payload, SendOptions, Stats, Where
from rowq.model.queue import DeliveryMode, Origin, Policy, Settings, SettingsOptions
from rowq.model.stream import Stream
from rowq.store.app_connection import is_awaited
from rowq.store.dialect import Finding
from rowq.worker.async_consumer import AsyncConsumer
from rowq.worker.async_producer import AsyncProducer
from rowq.worker.plan import ConsumerOptions, Process, to_plan

P = ParamSpec("P")
T = TypeVar("T")


class AwaitedConnection(Protocol):
    """The AsyncConnection of psycopg, and the AsyncConnection and AsyncSession of SQLAlchemy."""

    def commit(self) -> Awaitable[None]: ...


class AsyncBroker:
    """The queue, in process, for coroutines. Created by `rowq.connect_async(url)`; `async with` opens the database.

    >>> async with rowq.connect_async("sqlite:///jobs.db") as broker:  # doctest: +SKIP
    ...     await broker.send("emails", {"to": "ada@example.com"})
    """

    def __init__(self, open: Callable[[], Engine]) -> None:
        self._open = open
        self._opened: Engine | None = None

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
        """As `Broker.within`. The verbs are coroutines if your connection is awaited too; else they are plain methods, to be called in a
        thread that your connection allows."""
        store = self._engine().store
        self._engine().check_open()
        return AsyncWithin(store, connection) if is_awaited(connection) and store.dialect.can_bridge else Within(store, connection)

    async def close(self) -> None:
        if self._opened is not None:
            await asyncio.to_thread(self._opened.close)

    async def __aenter__(self) -> Self:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # For operators: inspect, repair, configure queues, keys and streams.

    async def get(self, id: str, *, queue: str | None = None) -> Message:
        return await self._look(self._engine().insights.get, id, queue)

    async def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        return await self._look(self._engine().insights.browse, queue, **options)

    async def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, grouped by reason and by errors that mean the same."""
        return await self._look(self._engine().insights.failures, queue, limit=limit)

    async def stats(self, queue: str) -> Stats:
        return await self._look(self._engine().insights.stats, queue)

    async def queues(self) -> list[Stats]:
        return await self._look(self._engine().insights.queues)

    async def audit(self, id: str, *, queue: str | None = None) -> list[Event]:
        return await self._look(self._engine().insights.audit, id, queue)

    async def actions(self, queue: str | None = None, *, limit: int = 100) -> list[Event]:
        """What operators did to queues (configured, paused, purged …), newest first."""
        return await self._look(self._engine().insights.actions, queue, limit)

    async def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        return await self._look(self._engine().insights.keys, prefix)

    async def forget(self, key: KvKey) -> bool:
        return await self._drive(self._engine().verbs.forget(key))

    async def settings(self, queue: str) -> Settings:
        return await self._look(self._engine().insights.settings, queue)

    async def policy(self, queue: str) -> Policy:
        """The effective settings of a queue: its own, else the defaults."""
        return await self._look(self._engine().insights.policy, queue)

    async def origins(self, queue: str) -> dict[str, Origin]:
        """Where the value of each setting of a queue comes from: "queue", "server" (the broker's `defaults`) or "default"."""
        return await self._look(self._engine().insights.origins, queue)

    async def configure(self, queue: str, **settings: Unpack[SettingsOptions]) -> Settings:
        return await self._drive(self._engine().verbs.configure(queue, dict(settings)))

    async def pause(self, queue: str) -> None:
        await self._drive(self._engine().verbs.pause(queue))

    async def resume(self, queue: str) -> None:
        await self._drive(self._engine().verbs.resume(queue))

    async def delete_queue(self, queue: str) -> None:
        await self._drive(self._engine().verbs.delete_queue(queue))

    async def purge(self, queue: str, *, states: Sequence[str] | None = None, progress: Progress | None = None) -> int:
        return await self._drive(self._engine().verbs.purge(queue, states, progress))

    async def delete(self, id: str, *, queue: str | None = None) -> None:
        await self._drive(self._engine().verbs.delete(id, queue))

    async def redrive(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        return await self._drive(self._engine().verbs.redrive(queue, ids, where, limit, rate, progress))

    async def delete_dead(
        self,
        queue: str,
        *,
        ids: Iterable[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        return await self._drive(self._engine().verbs.delete_dead(queue, ids, where, limit, rate, progress))

    async def consumers(self, queue: str, *, dead_after: Duration = DEAD_AFTER) -> list[Member]:
        return await self._drive(self._engine().verbs.consumers(queue, dead_after))

    async def all_consumers(self, *, dead_after: Duration = DEAD_AFTER) -> list[ConsumerLook]:
        return await self._drive(self._engine().verbs.all_consumers(dead_after))

    async def streams(self) -> list[Stream]:
        return await self._look(self._engine().insights.streams)

    async def revoke_stream(self, name: str) -> int:
        return await self._drive(self._engine().verbs.revoke_stream(name))

    async def quarantine(self, stream: str, batch: int, ids: Iterable[str], *, reason: str | None = None) -> int:
        return await self._drive(self._engine().verbs.quarantine(stream, batch, ids, reason))

    async def create_key(self, name: str, *, scopes: Iterable[str], queues: Iterable[str] = ("*",)) -> str:
        return await self._drive(self._engine().verbs.create_key(name, scopes, queues))

    async def api_keys(self) -> list[ApiKey]:
        return await self._look(self._engine().insights.api_keys)

    async def revoke_key(self, name: str) -> None:
        await self._drive(self._engine().verbs.revoke_key(name))

    async def maintain(self) -> MaintenanceResult:
        return await self._drive(self._engine().maintenance.run_all())

    async def run_maintenance(self, task: str) -> int:
        return await self._drive(self._engine().maintenance_tasks.run(task))

    def sweep(self) -> Coroutine[Any, Any, MaintenanceResult]:
        warn_renamed("broker.sweep()", "broker.maintain()")
        return self.maintain()

    def run_sweep(self, name: str) -> Coroutine[Any, Any, int]:
        warn_renamed("broker.run_sweep()", "broker.run_maintenance()")
        return self.run_maintenance(name)

    async def doctor(self) -> list[Finding]:
        return await self._look(self._engine().examine)

    def _engine(self) -> Engine:
        if self._opened is None:
            raise BrokerClosed("this broker is not open yet: use `async with rowq.connect_async(url) as broker`")
        return self._opened

    def _drive(self, steps: Operation[T] | SingleCall[Any, T]) -> Coroutine[Any, Any, T]:
        return self._engine().driver.drive_async(steps)

    def _look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._drive(self._engine().verbs.look(function, *arguments, **options))
