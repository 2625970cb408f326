"""What an application may hand to `within`: what it sends and settles there holds if, and only if, its own transaction commits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from rowq import InvalidArgument, LeaseLost, RowqError
from tests.docs.page import ROOT
from tests.support.background import Background
from tests.support.blocking import LoopThread
from tests.support.cover import covering
from tests.support.database import KINDS, MariadbDatabase
from tests.support.harness import harness_for
from tests.support.holders.awaited import AsyncConnectionHolder, AsyncPsycopgHolder, AsyncSessionHolder, AwaitedHolder
from tests.support.holders.django import DjangoHolder
from tests.support.holders.driver import DriverHolder, by_mysqlclient, by_psycopg, by_pymysql, by_sqlite3, mysqlclient
from tests.support.holders.holder import Holder, Undo
from tests.support.holders.sqlalchemy import ConnectionHolder, SessionHolder
from tests.support.life import depths, drain, take

HOLDERS: dict[str, Callable[..., Holder]] = {
    "sqlite-sqlite3": partial(DriverHolder, connect=by_sqlite3),
    "sqlite-connection": partial(ConnectionHolder, dialect="sqlite", connect=by_sqlite3),
    "sqlite-session": partial(SessionHolder, dialect="sqlite", connect=by_sqlite3),
    "sqlite-django": DjangoHolder,
    "postgresql-psycopg": partial(DriverHolder, connect=by_psycopg),
    "postgresql-connection": partial(ConnectionHolder, dialect="postgresql+psycopg", connect=by_psycopg),
    "postgresql-session": partial(SessionHolder, dialect="postgresql+psycopg", connect=by_psycopg),
    "postgresql-django": DjangoHolder,
    "postgresql-async-psycopg": AsyncPsycopgHolder,
    "postgresql-async-connection": AsyncConnectionHolder,
    "postgresql-async-session": AsyncSessionHolder,
    "mariadb-pymysql": partial(DriverHolder, connect=by_pymysql),
    "mariadb-mysqlclient": partial(DriverHolder, connect=by_mysqlclient),
    "mariadb-pymysql-connection": partial(ConnectionHolder, dialect="mysql+pymysql", connect=by_pymysql),
    "mariadb-pymysql-session": partial(SessionHolder, dialect="mysql+pymysql", connect=by_pymysql),
    "mariadb-mysqlclient-connection": partial(ConnectionHolder, dialect="mysql+mysqldb", connect=by_mysqlclient),
    "mariadb-mysqlclient-session": partial(SessionHolder, dialect="mysql+mysqldb", connect=by_mysqlclient),
    "mariadb-mysqlclient-django": DjangoHolder,
}


@contextmanager
def held_as(name: str, folder: Path, loop: LoopThread, *, commits_itself: bool = False) -> Iterator[Holder]:
    make = HOLDERS[name]
    if "mysqlclient" in name:
        mysqlclient()
    is_awaited = isinstance(make, type) and issubclass(make, AwaitedHolder)
    kind = name.partition("-")[0]
    with harness_for(f"{kind}-{'async' if is_awaited else 'sync'}", folder, loop) as harness:
        holder = make(harness, **({"loop": loop} if is_awaited else {}), commits_itself=commits_itself)
        with closing(holder):
            yield holder


ALWAYS = ("test_a_commit_sends_with_the_rest", "test_a_rollback_takes_the_send_back", "test_without_an_open_transaction_nothing_is_sent")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Commit and rollback are tried with every one of them; the rest in `make test` with one a database, and in `make prove` with all."""
    by_kind = [[name for name in HOLDERS if name.startswith(f"{kind}-")] for kind in KINDS]
    for fixture in {"holder", "autocommitting"} & set(metafunc.fixturenames):
        cases = list(HOLDERS) if metafunc.function.__name__ in ALWAYS else covering(metafunc, *by_kind)
        metafunc.parametrize(fixture, cases, indirect=True)


@pytest.fixture
def holder(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[Holder]:
    with held_as(request.param, tmp_path, loop) as holder:
        yield holder


@pytest.fixture
def autocommitting(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread) -> Iterator[Holder]:
    with held_as(request.param, tmp_path, loop, commits_itself=True) as holder:
        yield holder


def test_a_commit_sends_with_the_rest(holder: Holder) -> None:
    holder.order()
    id = holder.within().send("q", {"order": "lamp", "text": "Ä\\'\x00ß"}, headers={"h": "1"}, key="k")
    holder.within().send_many("q", [b"\x00\xff'\\", 2], group="g")
    assert depths(holder.broker) == {}
    holder.commit()
    assert holder.orders() == 1
    delivery = take(holder.broker)
    assert (delivery.id, delivery.payload, delivery.headers) == (id, {"order": "lamp", "text": "Ä\\'\x00ß"}, {"h": "1"})
    assert drain(holder.broker) == [b"\x00\xff'\\", 2]


def test_a_rollback_takes_the_send_back(holder: Holder) -> None:
    holder.order()
    holder.within().send("q", "x")
    holder.rollback()
    assert holder.orders() == 0
    assert depths(holder.broker) == {}
    assert holder.broker.receive("q") == []


def test_a_savepoint_that_is_rolled_back_takes_its_sends_along(holder: Holder) -> None:
    holder.order()
    holder.within().send("q", "before")
    with holder.savepoint():
        holder.within().send("q", "undone", key="k", group="g")
        raise Undo
    with holder.savepoint():
        holder.within().send("q", "inside")
    holder.commit()
    assert holder.orders() == 1
    assert drain(holder.broker) == ["before", "inside"]


def test_a_rollback_takes_back_what_a_savepoint_has_kept(holder: Holder) -> None:
    holder.order()
    with holder.savepoint():
        holder.within().send("q", "x")
    holder.rollback()
    assert depths(holder.broker) == {}


def test_an_ack_holds_if_the_transaction_commits(holder: Holder) -> None:
    holder.broker.send("q", "x")
    delivery = take(holder.broker)
    holder.order()
    holder.within().ack(delivery)
    holder.rollback()
    assert depths(holder.broker) == {"leased": 1}
    holder.order()
    holder.within().ack(delivery)
    holder.commit()
    assert depths(holder.broker) == {}
    with pytest.raises(LeaseLost):
        holder.broker.ack(delivery)


def test_what_is_refused_leaves_the_transaction_to_its_owner(holder: Holder) -> None:
    holder.broker.send("q", "before", id="taken")
    holder.order()
    with pytest.raises(RowqError, match="taken"):
        holder.within().send("q", "x", id="taken")
    holder.within().send("q", "after")
    holder.commit()
    assert holder.orders() == 1
    assert drain(holder.broker) == ["before", "after"]


def test_a_send_behind_the_end_of_a_transaction_waits_for_the_next_commit_or_is_refused(holder: Holder) -> None:
    holder.order()
    verbs = holder.within()
    verbs.send("q", "first")
    holder.commit()
    if isinstance(holder, DjangoHolder):
        with pytest.raises(InvalidArgument, match="no open transaction"):
            verbs.send("q", "late")
    else:
        verbs.send("q", "late")
        assert depths(holder.broker) == {"ready": 1}
        holder.rollback()
    assert drain(holder.broker) == ["first"]


def test_a_send_that_opens_the_transaction_is_committed_with_it(holder: Holder) -> None:
    if isinstance(holder, DjangoHolder):
        holder.run("SELECT 1")  # enters transaction.atomic()
    holder.within().send("q", "x")
    assert depths(holder.broker) == {}
    holder.commit()
    assert drain(holder.broker) == ["x"]


def test_a_waiter_hears_of_a_committed_send(holder: Holder) -> None:
    holder.broker.send("q", "first")
    drain(holder.broker)
    waiter = Background(lambda: holder.broker.receive("q", wait=20))
    holder.order()
    holder.within().send("q", "x")
    holder.commit()
    assert [delivery.payload for delivery in waiter.result()] == ["x"]


def test_without_an_open_transaction_nothing_is_sent(autocommitting: Holder) -> None:
    with pytest.raises(InvalidArgument, match="no open transaction"):
        autocommitting.within().send("q", "x")
    autocommitting.order()
    with pytest.raises(InvalidArgument, match="no open transaction"):
        autocommitting.within().send("q", "x")
    assert autocommitting.orders() == 1
    assert depths(autocommitting.broker) == {}


def test_django_on_pymysql_is_the_same() -> None:
    command = [sys.executable, "-m", "tests.support.holders.django_on_pymysql", MariadbDatabase().url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    arrived, refused = done.stdout.splitlines() or ("", "")
    assert (arrived, done.returncode) == ("['kept']", 0), done.stderr
    assert "no open transaction" in refused
