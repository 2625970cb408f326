"""The disk of the server is full: what does not fit is refused whole, what was answered stays, and all goes on when there is room."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress

import pymysql
import pytest

import rowq
from tests.support.asking import ask
from tests.support.disk import SmallDisk
from tests.support.servers import OwnServer, PostgresqlServer
from tests.support.tables import faults_of


@pytest.fixture
def disk(server: OwnServer) -> Iterator[SmallDisk]:
    """Below the data, where MariaDB takes a folder for a database."""
    disk = SmallDisk(server.data / f"small_{secrets.token_hex(4)}")
    server.account.give(disk.folder)
    yield disk
    disk.remove()
    disk.folder.rmdir()


@pytest.fixture
def url_on_disk(server: OwnServer, disk: SmallDisk) -> Iterator[str]:
    """The tables are there, and the log is not: a server that cannot write its log ends."""
    name = disk.folder.name
    if isinstance(server, PostgresqlServer):
        ask(server.home, f"CREATE TABLESPACE {name} LOCATION '{disk.folder}'", f"CREATE DATABASE {name} TABLESPACE {name}")
    yield server.url(name)
    with suppress(pymysql.err.OperationalError):  # what it cannot remove is the folder itself
        server.drop_database(name)
    if isinstance(server, PostgresqlServer):
        ask(server.home, f"DROP TABLESPACE {name}")


def fill(broker: rowq.Broker, answered: list[str]) -> None:
    while len(answered) < 10_000:
        answered += broker.send_many("q", [secrets.token_hex(10_000)] * 10, group="g")


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_full_disk_refuses_whole_calls_and_keeps_what_was_answered(disk: SmallDisk, url_on_disk: str) -> None:
    answered: list[str] = []
    with rowq.connect(url_on_disk) as broker:
        with pytest.raises(rowq.StoreFull, match="free some space") as caught:
            fill(broker, answered)
        assert caught.value.code == "store_full"
        assert answered
        assert {message.id for message in broker.walk("q")} == set(answered)
        assert faults_of(url_on_disk) == {}
        disk.grow()
        answered += broker.send_many("q", ["small"] * 10, group="g")
        assert {message.id for message in broker.walk("q")} == set(answered)
        (delivery,) = broker.receive("q")
        broker.ack(delivery)
        assert delivery.id == answered[0]
    assert faults_of(url_on_disk) == {}
