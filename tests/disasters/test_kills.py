"""kill -9 of the program, of `rowq serve`, of the database: what was answered is there as far as that is promised."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.disasters.conftest import Begin
from tests.disasters.promised import ROUNDS, begin_living, check, each
from tests.disasters.test_restarts import crash
from tests.docs.promises import Promise, promises
from tests.rivals.process import Rival, Start
from tests.support.asking import ask
from tests.support.servers import OwnServer
from tests.support.serving import Served

pytestmark = pytest.mark.timeout(240 * ROUNDS)

Place = tuple[str, str]
"""The URL of a database, and the one under which a setting holds."""


@pytest.fixture
def place(promise: Promise, begin: Begin, tmp_path: Path) -> Iterator[Place]:
    if promise.kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
        yield url, f"{url}?{promise.setting}"
        return
    server = begin(promise.kind)
    database = f"kept_{secrets.token_hex(4)}"
    server.create_database(database)
    url = server.url(database)
    with told(server, database, promise.setting):
        yield url, f"{url}&{promise.setting}" if promise.setting.startswith("durability") else url
    server.start()
    server.drop_database(database)


@contextmanager
def told(server: OwnServer, database: str, setting: str) -> Iterator[None]:
    """A server knows what it is to do. Whether it syncs does not matter to a kill: these have fsync=off already."""
    name, _, value = setting.partition("=")
    if name == "synchronous_commit":
        ask(server.url(database), f"ALTER DATABASE {database} SET {setting}")
    if not name.startswith("innodb"):
        yield
        return
    ((usual,),) = ask(server.url(""), f"SELECT @@GLOBAL.{name}")
    ask(server.url(""), f"SET GLOBAL {name} = {value}")
    yield
    server.start()
    ask(server.url(""), f"SET GLOBAL {name} = {usual}")


@each(promises("process killed"))
def test_what_was_answered_survives_a_killed_process(start: Start, place: Place, promise: Promise, often: bool) -> None:
    url, set_url = place
    choose = random.Random(f"process {promise}")

    def strike(how: tuple[str, ...]) -> tuple[Rival, None]:
        rival, moment = begin_living(start, set_url, how, choose, often=often)
        moment()
        rival.kill()
        return rival, None

    check(promise, strike, url, often=often)


@each(promises("`rowq serve` killed"))
def test_what_was_answered_survives_a_killed_rowq_serve(start: Start, place: Place, promise: Promise, often: bool, tmp_path: Path) -> None:
    url, set_url = place
    choose = random.Random(f"serve {promise}")

    def strike(how: tuple[str, ...]) -> tuple[Rival, None]:
        served = Served(tmp_path, "--json", ROWQ_URL=set_url)
        try:
            served.announced()
            rival, moment = begin_living(start, served.url, how, choose, often=often)
            moment()
            served.process.kill()
            rival.kill()
        finally:
            served.close()
        return rival, None

    check(promise, strike, url, often=often)


@each(promises("database killed"))
def test_what_was_answered_survives_a_killed_database_as_promised(
    start: Start, begin: Begin, place: Place, promise: Promise, often: bool
) -> None:
    url, set_url = place
    server = begin(promise.kind)
    choose = random.Random(f"database {promise}")

    def strike(how: tuple[str, ...]) -> tuple[Rival, None]:
        rival, moment = begin_living(start, set_url, how, choose, often=often)
        moment()
        crash(server)
        rival.kill()
        server.start()
        return rival, None

    check(promise, strike, url, often=often)
