"""Pairs of databases: a source and a target of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from rowq.store.mariadb.dialect import Mariadb
from rowq.store.postgresql.dialect import Postgresql
from rowq.store.sqlite.dialect import Sqlite
from tests.support.cover import covering
from tests.support.database import KINDS, Database, SqliteDatabase, new_database
from tests.transfer.journey import Journey

EVERY_PAIR = [f"{source}-{target}" for source, target in product(KINDS, KINDS)]
SOME_PAIRS = ["sqlite-postgresql", "postgresql-mariadb", "mariadb-sqlite"]
"""Each kind once as source and once as target: for what takes longer."""

Open = Callable[[str], Journey]


@pytest.fixture(autouse=True)
def settings_are_read_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy waits until everybody has read that the source is paused, which would make a second for each of these tests."""
    for dialect in (Sqlite, Postgresql, Mariadb):
        monkeypatch.setattr(dialect, "settings_max_age_ms", 0)


@pytest.fixture
def open_journey(tmp_path: Path) -> Iterator[Open]:
    opened: list[Journey] = []

    def open_one(pair: str) -> Journey:
        source, target = pair.split("-")
        opened.append(Journey(_new(source, tmp_path / "source"), _new(target, tmp_path / "target")))
        return opened[-1]

    yield open_one
    for journey in opened:
        journey.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test goes from each kind of database to one, and in `make prove` to all."""
    if "journey" in metafunc.fixturenames:
        pairs = [[pair for pair in EVERY_PAIR if pair.startswith(source)] for source in KINDS]
        metafunc.parametrize("journey", covering(metafunc, *pairs), indirect=True)


@pytest.fixture
def journey(request: pytest.FixtureRequest, open_journey: Open) -> Journey:
    return open_journey(request.param)


@pytest.fixture(params=SOME_PAIRS)
def some_journey(request: pytest.FixtureRequest, open_journey: Open) -> Journey:
    return open_journey(request.param)


@pytest.fixture
def short_journey(open_journey: Open) -> Journey:
    """For what has nothing to do with the kind of database."""
    return open_journey("sqlite-sqlite")


def _new(kind: str, folder: Path) -> Database:
    """A file that is not there yet: two that were copied from one are refused, as copies of one database."""
    folder.mkdir()
    database = new_database(kind, folder)
    if isinstance(database, SqliteDatabase):
        database.path.unlink(missing_ok=True)
    return database
