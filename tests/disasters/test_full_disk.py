"""The disk of the server is full: what does not fit is refused whole, what was answered stays, and all goes on when there is room."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.support.asking import ask
from tests.support.servers import PostgresqlServer, Unavailable
from tests.support.tables import faults_of

SMALL, LARGE = "24m", "96m"
_WORKS = "a file system of a few megabytes needs root, who may mount one"


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o755)
        self._mount("-t", "tmpfs", "-o", f"size={SMALL},mode=0755", "tmpfs")

    def grow(self) -> None:
        self._mount("-o", f"remount,size={LARGE}")

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True, timeout=20)

    def _mount(self, *words: str) -> None:
        done = subprocess.run(["mount", *words, str(self.folder)], check=False, capture_output=True, text=True, timeout=20)
        if done.returncode:
            raise Unavailable(f"{_WORKS} [{done.stderr.strip()}]")


@pytest.fixture
def disk(postgresql: PostgresqlServer) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        raise Unavailable(_WORKS)
    disk = SmallDisk(postgresql.place / f"disk-{secrets.token_hex(4)}")
    postgresql.account.give(disk.folder)
    yield disk
    disk.remove()


@pytest.fixture
def url_on_disk(postgresql: PostgresqlServer, disk: SmallDisk) -> Iterator[str]:
    """The tables are there, and the log is not: a server that cannot write its log ends."""
    name = f"small_{secrets.token_hex(4)}"
    ask(postgresql.home, f"CREATE TABLESPACE {name} LOCATION '{disk.folder}'", f"CREATE DATABASE {name} TABLESPACE {name}")
    yield postgresql.url(name)
    postgresql.drop_database(name)
    ask(postgresql.home, f"DROP TABLESPACE {name}")


def fill(broker: rowq.Broker, answered: list[str]) -> None:
    while len(answered) < 10_000:
        answered += broker.send_many("q", [secrets.token_hex(10_000)] * 10, group="g")


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
