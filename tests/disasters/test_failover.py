"""The primary dies and its standby takes over: what waited for the standby is there, what did not may be missing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

import rowq
from tests.disasters.promised import begin_living
from tests.disasters.survival import undone_of
from tests.disasters.test_restarts import crash
from tests.rivals.process import Start
from tests.support.asking import ask
from tests.support.patience import eventually
from tests.support.servers import PostgresqlServer, own_postgresql

DATABASE = "shop"
EVERYTHING = ("send", "decision", "handling")


class Standby(PostgresqlServer):
    """Made from a primary, which it follows until it is promoted."""

    primary: PostgresqlServer

    def promote(self) -> None:
        ask(self.home, "SELECT pg_promote()")
        eventually(lambda: ask(self.home, "SELECT NOT pg_is_in_recovery()") == [(True,)])

    def stand_still(self) -> None:
        """It follows the primary no more, and hears of nothing that comes after."""
        ask(self.home, "ALTER SYSTEM SET primary_conninfo = ''")
        ask(self.home, "SELECT pg_reload_conf()")
        eventually(lambda: not ask(self.home, "SELECT 1 FROM pg_stat_wal_receiver"))

    def _install(self) -> None:
        source = self.primary.home
        self.account.run(
            [self._program("pg_basebackup"), f"--pgdata={self.data}", "-R", "--checkpoint=fast", "--no-sync", f"--dbname={source}"]
        )

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            return bool(ask(self.home, "SELECT 1 FROM pg_stat_wal_receiver WHERE status = 'streaming'"))
        return False


@pytest.fixture
def primary() -> Iterator[PostgresqlServer]:
    with own_postgresql() as primary:
        primary.create_database(DATABASE)
        rowq.migrate(primary.url(DATABASE))
        yield primary


@pytest.fixture
def standby(primary: PostgresqlServer) -> Iterator[Standby]:
    class OfThisOne(Standby):
        pass

    OfThisOne.primary = primary
    with OfThisOne.begin(None, {}) as standby:
        yield standby


def wait_for_standbys(primary: PostgresqlServer) -> None:
    ask(primary.home, "ALTER SYSTEM SET synchronous_standby_names = '*'")
    ask(primary.home, "SELECT pg_reload_conf()")
    eventually(lambda: ask(primary.home, "SELECT sync_state FROM pg_stat_replication") == [("sync",)])


def test_a_synchronous_standby_has_everything_that_was_answered(primary: PostgresqlServer, standby: Standby, start: Start) -> None:
    wait_for_standbys(primary)
    rival, moment = begin_living(start, primary.url(DATABASE), (), random.Random("synchronous"))
    moment()
    crash(primary)
    rival.kill()
    standby.promote()
    assert not +undone_of(rival, standby.url(DATABASE), EVERYTHING)


@pytest.mark.prove("two servers, 10 s, for what may be lost; test_a_synchronous_standby_has_everything_that_was_answered stands for it")
def test_an_asynchronous_standby_may_lack_the_latest_and_is_whole(primary: PostgresqlServer, standby: Standby, start: Start) -> None:
    rival, moment = begin_living(start, primary.url(DATABASE), (), random.Random("asynchronous"))
    moment()
    standby.stand_still()
    rival.await_said("done", len(rival.said("done")) + 100)
    crash(primary)
    rival.kill()
    standby.promote()
    assert +undone_of(rival, standby.url(DATABASE), ())
