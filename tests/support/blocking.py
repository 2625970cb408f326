"""An AsyncBroker called from ordinary code: each verb runs on an event loop in a thread of its own, the caller waits for it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from typing import Any

import rowq


class LoopThread:
    """An event loop that runs until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(_whole(awaitable), self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Blocking:
    """Something whose methods are coroutines."""

    def __init__(self, loop: LoopThread, awaited: Any) -> None:
        self._loop = loop
        self._awaited = awaited

    def __getattr__(self, verb: str) -> Any:
        return _Verb(self._loop, getattr(self._awaited, verb))


class BlockingBroker(Blocking):
    """The verbs of a Broker, carried out by an AsyncBroker."""

    def __init__(self, loop: LoopThread, url: str, **options: Any) -> None:
        super().__init__(loop, loop.run(_entered(url, options)))

    def __enter__(self) -> BlockingBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._awaited.__aexit__(None, None, None))


class _Verb:
    """One verb; what it answers is waited for when it is a coroutine."""

    def __init__(self, loop: LoopThread, verb: Any) -> None:
        self._loop = loop
        self._verb = verb

    def __call__(self, *args: Any, **options: Any) -> Any:
        answer = self._verb(*args, **options)
        return self._loop.run(answer) if inspect.isawaitable(answer) else answer


async def _entered(url: str, options: dict[str, Any]) -> Any:
    return await rowq.connect_async(url, **options).__aenter__()


async def _whole(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
