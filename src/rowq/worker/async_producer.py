"""A producer for event loops: that of producer.py, with the sending left to its thread."""

from __future__ import annotations

import asyncio
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from rowq.engine.engine import Engine
from rowq.engine.operation import take_each_async
from rowq.model.duration import Duration
from rowq.model.message import Payload, PushOptions, SendOptions
from rowq.worker.producer import Producer


class AsyncProducer:
    """Created by `broker.producer(queue)` of an AsyncBroker: `await producer.push(…)` takes a message, and gives a future of its id."""

    def __init__(self, engine: Engine, queue: str, batch_size: int, linger: Duration, options: SendOptions) -> None:
        self._engine = engine
        self._producer = Producer(engine, queue, batch_size, linger, options)

    async def push(
        self, payload: Payload, *, deadline: Duration | datetime | None = None, **options: Unpack[PushOptions]
    ) -> asyncio.Future[str]:
        parcel = self._producer.pack(payload, deadline, options)
        if self._producer.batch_size == 1:
            return asyncio.wrap_future(await take_each_async(self._producer.send_now(parcel), self._engine.driver.drive_async))
        if self._producer.is_full():
            await asyncio.to_thread(self._producer.send_all)
        return asyncio.wrap_future(self._producer.post(parcel))

    async def flush(self) -> None:
        await asyncio.to_thread(self._producer.flush)

    async def close(self) -> None:
        await asyncio.to_thread(self._producer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()
