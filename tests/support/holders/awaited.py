"""What belongs to an event loop: psycopg's AsyncConnection, and SQLAlchemy's AsyncConnection and AsyncSession on it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from tests.support.blocking import Blocking, LoopThread
from tests.support.harness import Harness
from tests.support.holders.holder import Holder


def async_engine_on(url: str, *, commits_itself: bool = False) -> AsyncEngine:
    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(url)

    engine = create_async_engine("postgresql+psycopg://", async_creator=connect, poolclass=NullPool)
    return engine.execution_options(isolation_level="AUTOCOMMIT") if commits_itself else engine


class AwaitedHolder(Holder):
    """One whose every method is awaited on the loop of another thread."""

    def __init__(self, harness: Harness, loop: LoopThread, *, commits_itself: bool = False) -> None:
        super().__init__(harness)
        self.loop = loop
        self.held = loop.run(self._open(commits_itself))

    def _open(self, commits_itself: bool) -> Awaitable[Any]:
        raise NotImplementedError

    def within(self) -> Any:
        return Blocking(self.loop, self.broker.within(self.held))

    def run(self, statement: str) -> None:
        self.loop.run(self.held.execute(text(statement)))

    @contextmanager
    def nested(self) -> Iterator[None]:
        block = self._nested()
        self.loop.run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            self.loop.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self.loop.run(block.__aexit__(None, None, None))

    def _nested(self) -> Any:
        return self.held.begin_nested()

    def commit(self) -> None:
        self.loop.run(self.held.commit())

    def rollback(self) -> None:
        self.loop.run(self.held.rollback())

    def close(self) -> None:
        self.loop.run(self.held.close())


class AsyncPsycopgHolder(AwaitedHolder):
    async def _open(self, commits_itself: bool) -> Any:
        return await psycopg.AsyncConnection.connect(self.harness.url, autocommit=commits_itself)

    def run(self, statement: str) -> None:
        self.loop.run(self.held.execute(statement))

    def _nested(self) -> Any:
        return self.held.transaction()


class AsyncConnectionHolder(AwaitedHolder):
    async def _open(self, commits_itself: bool) -> Any:
        return await async_engine_on(self.harness.url, commits_itself=commits_itself).connect()


class AsyncSessionHolder(AwaitedHolder):
    async def _open(self, commits_itself: bool) -> Any:
        return AsyncSession(async_engine_on(self.harness.url, commits_itself=commits_itself))
