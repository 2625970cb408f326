"""Verbs within a transaction of an event loop, on PostgreSQL: together, cancelled, and with nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import uvloop
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

import rowq
from tests.support.database import PostgresqlDatabase
from tests.support.holders.awaited import async_engine_on
from tests.support.patience import eventually_async

_WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def url() -> str:
    return PostgresqlDatabase().url


IsWaitedFor = Callable[[], int]
Shop = Callable[[rowq.AsyncBroker, psycopg.AsyncConnection[Any]], Awaitable[None]]


Run = Callable[[Shop], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, url: str) -> Run:
    """Runs an application with a broker and a connection of its own."""

    def run_in_a_loop(shop: Shop) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(running(shop))

    async def running(shop: Shop) -> None:
        async with (
            rowq.connect_async(url, maintenance=False) as broker,
            await psycopg.AsyncConnection.connect(url) as connection,
        ):
            await connection.execute("CREATE TABLE orders (name TEXT)")
            await connection.commit()
            await shop(broker, connection)

    return run_in_a_loop


@asynccontextmanager
async def key_held(broker: rowq.AsyncBroker, url: str) -> AsyncIterator[IsWaitedFor]:
    """Another transaction has the key `held`; gives a way to see whether a transaction waits for it."""
    await broker.send("q", "first", key="held")
    async with await psycopg.AsyncConnection.connect(url) as other:
        await broker.within(other).send("q", "second", key="held")
        with psycopg.connect(url, autocommit=True) as looking:
            yield lambda: (looking.execute(_WAITING).fetchone() or (0,))[0]
        await other.rollback()


async def orders(connection: psycopg.AsyncConnection[Any]) -> int:
    row = await (await connection.execute("SELECT COUNT(*) FROM orders")).fetchone()
    return int(row[0]) if row else 0


def test_verbs_that_are_awaited_together_come_one_after_another(run: Run) -> None:
    async def shop(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        verbs = broker.within(connection)
        await asyncio.gather(*(verbs.send("q", number) for number in range(5)))
        await asyncio.gather(*(broker.within(connection).send("q", number) for number in range(5, 10)))
        await connection.commit()
        assert sorted(delivery.payload for delivery in await broker.receive("q", max=10)) == list(range(10))

    run(shop)


def test_a_verb_that_is_cancelled_leaves_the_transaction_to_its_owner(run: Run, url: str) -> None:
    async def shop(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("INSERT INTO orders VALUES ('lamp')")
        await broker.within(connection).send("q", "kept")
        async with key_held(broker, url) as is_waited_for:
            sending = asyncio.create_task(broker.within(connection).send("q", "cancelled", key="held"))
            await eventually_async(is_waited_for)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert await orders(connection) == 1
        await connection.commit()
        assert [delivery.payload for delivery in await broker.receive("q", max=10)] == ["kept", "first"]

    run(shop)


def test_a_transaction_whose_verb_was_cancelled_is_rolled_back(run: Run, url: str) -> None:
    async def shop(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        async with key_held(broker, url) as is_waited_for:
            sending = asyncio.create_task(order(broker, connection))
            await eventually_async(is_waited_for)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert await orders(connection) == 0
        assert [delivery.payload for delivery in await broker.receive("q", max=10)] == ["first"]

    async def order(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ('lamp')")
            await broker.within(connection).send("q", "cancelled", key="held")

    run(shop)


def test_a_session_whose_verb_ran_into_a_timeout_is_rolled_back(run: Run, url: str) -> None:
    async def shop(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        async with key_held(broker, url) as is_waited_for:
            with pytest.raises(TimeoutError):
                await order(broker, is_waited_for)
        assert await orders(connection) == 0
        assert [delivery.payload for delivery in await broker.receive("q", max=10)] == ["first"]

    async def order(broker: rowq.AsyncBroker, is_waited_for: IsWaitedFor) -> None:
        async with AsyncSession(async_engine_on(url)) as session, session.begin():
            await session.execute(text("INSERT INTO orders VALUES ('lamp')"))
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
                group.create_task(end(limit, is_waited_for))
                await broker.within(session).send("q", "late", key="held")

    async def end(limit: asyncio.Timeout, is_waited_for: IsWaitedFor) -> None:
        await eventually_async(is_waited_for)
        limit.reschedule(asyncio.get_running_loop().time())

    run(shop)


def test_the_connection_is_left_as_it_was(run: Run) -> None:
    settings = "SELECT name, setting FROM pg_settings WHERE name IN ('search_path', 'lock_timeout', 'jit', 'synchronous_commit')"

    async def shop(broker: rowq.AsyncBroker, connection: psycopg.AsyncConnection[Any]) -> None:
        before = await (await connection.execute(settings)).fetchall()
        await broker.within(connection).send("q", 1, key="k", group="g")
        assert await (await connection.execute(settings)).fetchall() == before
        async with connection.transaction(force_rollback=True):
            await broker.within(connection).send("q", "undone")
        await connection.commit()
        assert [message.payload for message in await broker.browse("q")] == [1]

    run(shop)
