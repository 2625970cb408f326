"""What `within` does not take, and what to do instead: each refusal is one sentence, and nothing is sent."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from pymysql.constants import CLIENT
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from rowq import InvalidArgument, StoreBusy, StoreUnavailable
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, run
from tests.support.harness import Harness, harness_for
from tests.support.holders.driver import by_mysqlclient, by_psycopg, by_sqlite3
from tests.support.holders.sqlalchemy import engine_on
from tests.support.life import depths, drain

ACCEPTED = {
    "sqlite": "a sqlite3.Connection, a Connection or Session of SQLAlchemy on it, or Django's connection",
    "postgresql": "a Connection of psycopg 3",
    "mariadb": "a connection of PyMySQL or mysqlclient",
}

DIALECTS = {"sqlite": "sqlite://", "postgresql": "postgresql+psycopg://", "mariadb": "mysql+pymysql://"}


@pytest.fixture
def sync(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[Harness]:
    with harness_for(f"{request.param}-sync", tmp_path, loop) as harness:
        yield harness


@pytest.fixture
def postgresql(tmp_path: Path, loop: LoopThread) -> Iterator[Harness]:
    with harness_for("postgresql-async", tmp_path, loop) as harness:
        yield harness


def refused(send: Callable[[], object]) -> str:
    with pytest.raises(InvalidArgument) as told:
        send()
    return str(told.value)


@pytest.mark.parametrize("sync", KINDS, indirect=True)
@pytest.mark.parametrize("make", [AsyncSession, lambda: create_engine("sqlite://"), object], ids=["AsyncSession", "Engine", "object"])
def test_a_refusal_says_what_was_given_and_what_is_taken(sync: Harness, make: Callable[[], Any]) -> None:
    given = make()
    told = refused(lambda: sync.broker.within(given).send("q", "x"))
    assert type(given).__qualname__ in told
    assert ACCEPTED[sync.url.partition(":")[0]] in told
    assert depths(sync.broker) == {}


@pytest.mark.parametrize("sync", ["postgresql"], indirect=True)
def test_psycopg2_is_another_driver(sync: Harness) -> None:
    with closing(psycopg2.connect(sync.url)) as connection:
        told = refused(lambda: sync.broker.within(connection).send("q", "x"))
    assert "psycopg2.extensions.connection" in told and "psycopg 3" in told


@pytest.mark.parametrize("sync", ["postgresql"], indirect=True)
def test_a_session_on_another_driver_is_told_by_its_driver(sync: Harness) -> None:
    engine = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(sync.url), poolclass=NullPool)
    with Session(engine) as session:
        told = refused(lambda: sync.broker.within(session).send("q", "x"))
    assert "psycopg2.extensions.connection" in told and "postgresql+psycopg://" in told


def test_asyncpg_is_another_driver(postgresql: Harness, loop: LoopThread) -> None:
    async def send_by_asyncpg() -> None:
        connection = await asyncpg.connect(postgresql.url)
        try:
            postgresql.broker.within(connection).send("q", "x")
        finally:
            await connection.close()

    assert "asyncpg.connection.Connection" in refused(lambda: loop.run(send_by_asyncpg()))


def test_an_async_session_on_asyncpg_is_told_by_its_driver(postgresql: Harness, loop: LoopThread) -> None:
    async def send_in_a_session() -> None:
        engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(postgresql.url), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await postgresql.broker.within(session).send("q", "x")  # type: ignore[misc]  # this broker is an AsyncBroker

    told = refused(lambda: loop.run(send_in_a_session()))
    assert "asyncpg.connection.Connection" in told and "AsyncSession of SQLAlchemy" in told


@pytest.mark.parametrize("sync", ["postgresql"], indirect=True)
def test_what_is_awaited_needs_a_broker_that_is_awaited(sync: Harness, loop: LoopThread) -> None:
    connection = loop.run(psycopg.AsyncConnection.connect(sync.url))
    told = refused(lambda: sync.broker.within(connection).send("q", "x"))
    loop.run(connection.close())
    assert "psycopg.AsyncConnection" in told and "rowq.connect_async()" in told


def test_a_session_on_another_kind_of_database_is_told_by_its_driver(postgresql: Harness, tmp_path: Path) -> None:
    with Session(create_engine(f"sqlite:///{tmp_path}/other.db", poolclass=NullPool)) as session:
        assert "sqlite3.Connection" in refused(lambda: postgresql.broker.within(session).send("q", "x"))


@pytest.mark.parametrize("sync", KINDS, indirect=True)
def test_a_session_on_another_database_of_the_same_kind_is_refused(sync: Harness) -> None:
    elsewhere = sync.elsewhere()
    engine = create_engine(DIALECTS[sync.url.partition(":")[0]], creator=elsewhere.database.connection, poolclass=NullPool)
    with Session(engine) as session:
        assert "where the queue lives" in refused(lambda: sync.broker.within(session).send("q", "x"))
        session.commit()
    assert depths(sync.broker) == depths(elsewhere.broker) == {}
    elsewhere.close()


@pytest.mark.parametrize("sync", ["postgresql"], indirect=True)
def test_a_connection_of_sqlalchemy_that_is_closed_is_an_error_of_ours(sync: Harness) -> None:
    connection = engine_on(sync, "postgresql+psycopg", by_psycopg).connect()
    connection.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        sync.broker.within(connection).send("q", "x")


@pytest.mark.parametrize("sync", ["mariadb"], indirect=True)
def test_a_connection_of_mysqlclient_that_cannot_write_every_text_is_refused(sync: Harness) -> None:
    with closing(by_mysqlclient(sync, charset="latin1")) as connection:
        assert "utf8mb4" in refused(lambda: sync.broker.within(connection).send("q", "x"))


@pytest.mark.parametrize("sync", ["mariadb"], indirect=True)
def test_an_error_of_mysqlclient_is_an_error_of_ours(sync: Harness) -> None:
    with closing(by_mysqlclient(sync)) as connection:
        assert connection.client_flag & CLIENT.MULTI_STATEMENTS  # what was said together is read one by one
        with closing(sync.database.connection()) as other:
            run(other, f"KILL {connection.thread_id()}")
        with pytest.raises(StoreBusy, match="nothing was written"):
            sync.broker.within(connection).send("q", "x")
    with closing(by_mysqlclient(sync)) as connection:
        connection.query("USE information_schema")
        assert "another database" in refused(lambda: sync.broker.within(connection).send("q", "x"))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no autocommit before Python 3.12")
@pytest.mark.parametrize("sync", ["sqlite"], indirect=True)
def test_a_connection_of_sqlite3_whose_commit_means_nothing_is_refused(sync: Harness) -> None:
    connect: Any = sqlite3.connect
    with closing(connect(sync.url.removeprefix("sqlite:///"), autocommit=True)) as connection:
        assert "no open transaction" in refused(lambda: sync.broker.within(connection).send("q", "x"))
    with closing(connect(sync.url.removeprefix("sqlite:///"), autocommit=False)) as connection:
        sync.broker.within(connection).send("q", "x")
        connection.commit()
    assert drain(sync.broker) == ["x"]


@pytest.mark.parametrize("sync", ["sqlite"], indirect=True)
def test_a_savepoint_that_comes_first_is_sound_by_the_recipe_of_sqlalchemy(sync: Harness) -> None:
    engine = engine_on(sync, "sqlite", partial(by_sqlite3, commits_itself=True))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with Session(engine) as session:
        with session.begin_nested():
            sync.broker.within(session).send("q", "never")
        session.rollback()
        with session.begin_nested():
            sync.broker.within(session).send("q", "x")
        session.commit()
    assert drain(sync.broker) == ["x"]


@pytest.mark.parametrize("sync", ["sqlite"], indirect=True)
def test_a_registry_and_a_pool_of_sqlalchemy_lead_to_a_connection(sync: Harness) -> None:
    engine = engine_on(sync, "sqlite", by_sqlite3)
    registry = scoped_session(sessionmaker(engine))
    sync.broker.within(registry).send("q", "by the registry")
    registry.commit()
    registry.remove()
    with closing(engine.raw_connection()) as pooled:
        sync.broker.within(pooled).send("q", "by the pool")
        pooled.commit()
    assert drain(sync.broker) == ["by the registry", "by the pool"]


@pytest.mark.parametrize("sync", ["sqlite"], indirect=True)
def test_a_class_of_the_applications_own_is_a_session_too(sync: Harness) -> None:
    class ShopSession(Session): ...

    with ShopSession(engine_on(sync, "sqlite", by_sqlite3)) as session:
        sync.broker.within(session).send("q", "x")
        session.commit()
    assert drain(sync.broker) == ["x"]
