"""A database with PEQ's schema `test01`, a client that speaks SQL, and a broker on its queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq.connect import install_peq
from tests.compat.peq.sql import Sql
from tests.support.blocking import LoopThread
from tests.support.database import new_database
from tests.support.server import Server
from tests.support.tables import PostgresqlTables


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = new_database("postgresql", tmp_path).url
    install_peq(url, "test01")
    return url


@pytest.fixture
def sql(url: str) -> Iterator[Sql]:
    """Whatever a test does, every message is in one state in the end, with all that belongs to it and nothing else."""
    sql, tables = Sql(url), PostgresqlTables(url)
    yield sql
    sql.close()
    faults = tables.faults()
    tables.close()
    assert not faults


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def remote(url: str) -> Iterator[rowq.Broker]:
    """A broker that asks a server over HTTP."""
    loop = LoopThread()
    server = Server(loop, url, maintenance=False)
    with rowq.connect(server.url) as broker:
        yield broker
    server.stop()
    loop.stop()
