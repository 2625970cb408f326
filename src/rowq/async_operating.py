"""What operators do, for event loops: the verbs of operating.py as coroutines, on the same engine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from rowq.engine import Engine
from rowq.errors import BrokerClosed
from rowq.model.access import ApiKey
from rowq.model.failure import Failures
from rowq.model.member import DEAD_AFTER, ConsumerLook, Member
from rowq.model.message import BrowseOptions, Duration, Event, KvEntry, KvKey, Message, SettingsOptions, Stats, Where
from rowq.model.queue import Origin, Policy, Settings
from rowq.model.stream import Stream
from rowq.pieces import Progress
from rowq.steps import Ask, Steps
from rowq.store.dialect import Finding
from rowq.upkeep import Swept

P = ParamSpec("P")
T = TypeVar("T")


class AsyncOperating:
    """The verbs that an AsyncBroker has beside those of its producers and consumers."""

    def __init__(self, open: Callable[[], Engine]) -> None:
        self._open = open
        self._opened: Engine | None = None

    async def get(self, id: str, *, queue: str | None = None) -> Message:
        return await self._look(self._engine().insights.get, id, queue)

    async def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        return await self._look(self._engine().insights.browse, queue, **options)

    async def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why dead letters died: the newest 10,000, put together by reason and by errors that mean the same."""
        return await self._look(self._engine().insights.failures, queue, limit=limit)

    async def stats(self, queue: str) -> Stats:
        return await self._look(self._engine().insights.stats, queue)

    async def queues(self) -> list[Stats]:
        return await self._look(self._engine().insights.queues)

    async def audit(self, id: str, *, queue: str | None = None) -> list[Event]:
        return await self._look(self._engine().insights.audit, id, queue)

    async def actions(self, queue: str | None = None, *, limit: int = 100) -> list[Event]:
        """What operators did to queues (configured, paused, purged …), the newest first."""
        return await self._look(self._engine().insights.actions, queue, limit)

    async def keys(self, prefix: KvKey = ()) -> list[KvEntry]:
        return await self._look(self._engine().insights.keys, prefix)

    async def forget(self, key: KvKey) -> bool:
        return await self._drive(self._engine().verbs.forget(key))

    async def settings(self, queue: str) -> Settings:
        return await self._look(self._engine().insights.settings, queue)

    async def policy(self, queue: str) -> Policy:
        """What holds for a queue: its settings, and the defaults where nothing is set."""
        return await self._look(self._engine().insights.policy, queue)

    async def origins(self, queue: str) -> dict[str, Origin]:
        """Where each setting of a queue gets its value from: "queue", "server" (the broker's `defaults`) or "default"."""
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

    async def sweep(self) -> Swept:
        return await self._drive(self._engine().upkeep.sweep())

    async def run_sweep(self, name: str) -> int:
        return await self._drive(self._engine().sweeps.run(name))

    async def doctor(self) -> list[Finding]:
        return await self._look(self._engine().examine)

    def _engine(self) -> Engine:
        if self._opened is None:
            raise BrokerClosed("this broker is not open yet: use `async with rowq.connect_async(url) as broker`")
        return self._opened

    def _drive(self, steps: Steps[T] | Ask[Any, T]) -> Coroutine[Any, Any, T]:
        return self._engine().driver.drive_async(steps)

    def _look(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._drive(self._engine().verbs.look(function, *arguments, **options))
