"""A database file and a broker on it, opened in the ordinary way."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Broker
from rowq.store.sqlite.dialect import Sqlite
from tests.store.driver import Spy

Connect = Callable[..., Broker]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """Asked for before a broker, it watches all that the broker says to SQLite."""
    spy = Spy()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=spy.connection()))
    return spy


@pytest.fixture
def connect(path: Path) -> Iterator[Connect]:
    """Opens the database again, with other options; all are closed in the end."""
    opened: list[Broker] = []

    def open_one(parameters: str = "", **options: Any) -> Broker:
        opened.append(rowq.connect(f"sqlite:///{path}{parameters}", maintenance=False, **options))
        return opened[-1]

    yield open_one
    for broker in opened:
        broker.close()


@pytest.fixture
def broker(connect: Connect) -> Broker:
    return connect()


@pytest.fixture
def dialect(broker: Broker) -> Sqlite:
    dialect = broker._engine.dialect
    assert isinstance(dialect, Sqlite)
    return dialect
