"""Whoever reads on from settled line to settled line reads every line once, whatever is open and whoever writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rowq import Broker
from rowq.spark.tables import LOGS, Piece, Tabular, open_tabular
from rowq.store.mariadb.session import MariadbSession
from rowq.store.mariadb.watermark import MariadbWatermark
from rowq.store.postgresql import watermark
from tests.rivals.process import Start
from tests.support.asking import ask
from tests.support.background import Background
from tests.support.database import Database, run
from tests.support.patience import eventually

pytestmark = pytest.mark.one_of("kind")

PATIENT = 60
WITHIN = 120
SERVERS = ("postgresql", "mariadb")
on_servers = pytest.mark.parametrize("kind", SERVERS, indirect=True)


class Follower:
    """Reads a log as a stream does: from one settled line to the next."""

    def __init__(self, tabular: Tabular, log: str = "audit") -> None:
        self._tabular = tabular
        self._log = log
        self.line = 0
        self.lines: list[int] = []

    def follow(self) -> int:
        """How many lines were new."""
        upto = self._tabular.settled(self._log)
        assert upto >= self.line
        found = [
            line
            for batch in self._tabular.read(Piece(self._log, self.line + 1, upto), queues=None, columns=["line"])
            for line in batch["line"].to_pylist()
        ]
        assert found == sorted(found)
        self.lines += found
        self.line = upto
        return len(found)


def lines_of(database: Database, log: str = "audit") -> list[int]:
    """What the table really holds, by a connection of the test's own."""
    connection = database.connection()
    try:
        prefix = "rowq." if database.url.startswith("postgresql") else ""
        table = "rowq_audit_lines" if log == "audit" and not database.url.startswith("mariadb") else f"rowq_{log}"
        return [row[0] for row in run(connection, f"SELECT id FROM {prefix}{table} WHERE queue <> '' ORDER BY id").fetchall()]
    finally:
        connection.close()


def test_of_an_empty_log_line_0_is_settled(tabular: Tabular) -> None:
    assert [tabular.settled(log) for log in LOGS] == [0, 0]
    assert list(tabular.read(Piece("audit", 1, 0), queues=None)) == []


def test_what_is_committed_is_settled(broker: Broker, tabular: Tabular, database: Database) -> None:
    broker.configure("q", keep="outcome")
    followers = [Follower(tabular, log) for log in LOGS]
    for _ in range(3):
        broker.send_many("q", range(5))
        broker.ack_many(broker.receive("q", max=5))
        assert all(follower.follow() for follower in followers)
    assert [follower.lines for follower in followers] == [lines_of(database, log) for log in LOGS]
    assert [tabular.settled(log) for log in LOGS] == [tabular.last_line(log) for log in LOGS]


@pytest.fixture
def hold_open(broker: Broker, database: Database) -> Any:
    """An application's own transaction in which something was sent; called, it gives the connection to end it with."""
    opened: list[Any] = []

    def open_one() -> Any:
        opened.append(database.connection())
        broker.within(opened[-1]).send("q", "open")
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


Hold = Callable[[], Any]


@on_servers
def test_nothing_above_an_open_transaction_appears_and_nothing_of_it_is_missed(
    broker: Broker, tabular: Tabular, database: Database, hold_open: Hold
) -> None:
    broker.send_many("q", range(3))
    follower = Follower(tabular)
    follower.follow()
    held = hold_open()
    broker.send_many("q", range(3))
    visible = lines_of(database)
    assert follower.follow() == 0
    assert follower.lines == visible[:3]
    assert follower.follow() == 0
    held.commit()
    eventually(follower.follow)
    eventually(lambda: follower.follow() or follower.line == tabular.last_line("audit"))
    assert follower.lines == lines_of(database)
    assert len(follower.lines) == 7


@on_servers
def test_what_is_open_when_nobody_has_ended_since_counts_too(broker: Broker, url: str, tabular: Tabular, hold_open: Hold) -> None:
    broker.send("q", 1)
    before = tabular.last_line("audit")
    held = hold_open()
    with open_tabular(url) as fresh:
        assert fresh.settled("audit") <= before
        held.commit()
        assert eventually(lambda: fresh.settled("audit") > before)


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_long_transaction_of_somebody_who_sends_nothing_holds_up_nobody(broker: Broker, tabular: Tabular, database: Database) -> None:
    other = database.connection()
    try:
        run(other, "CREATE TABLE beside (id BIGINT)")
        run(other, "INSERT INTO beside VALUES (1)")
        broker.send("q", 1)
        assert tabular.settled("audit") == tabular.last_line("audit") > 0
    finally:
        other.close()


@on_servers
def test_a_transaction_that_is_rolled_back_leaves_a_gap_and_no_delay(
    broker: Broker, tabular: Tabular, database: Database, hold_open: Hold
) -> None:
    follower = Follower(tabular)
    held = hold_open()
    broker.send("q", 1)
    held.rollback()
    assert eventually(follower.follow) == 1
    assert follower.lines == lines_of(database)


def made_patient(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Lets a reader wait for open transactions for a minute instead of a second; gives whether one waits now."""
    if url.startswith("postgresql"):
        looks, real_look = list[frozenset[str]](), watermark._still_there

        def look(before: frozenset[str], now: frozenset[str]) -> frozenset[str]:
            looks.append(now)
            return real_look(before, now)

        monkeypatch.setattr(watermark, "PATIENCE", PATIENT)
        monkeypatch.setattr(watermark, "_still_there", look)
        return lambda: bool(looks)
    real_rows = MariadbSession.rows

    def rows(session: MariadbSession, query: str, /, **values: Any) -> Any:
        return real_rows(session, query, **(values | ({"seconds": PATIENT} if query == "wait_for_locks" else {})))

    monkeypatch.setattr(MariadbSession, "rows", rows)
    waiting = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'LOCK TABLES%' AND state LIKE 'Waiting%'"
    return lambda: bool(ask(url, waiting))


@on_servers
def test_senders_are_not_held_up_by_somebody_who_waits_for_an_open_transaction(
    broker: Broker, tabular: Tabular, url: str, hold_open: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader still waits when the messages have been sent, however slow the machine is."""
    is_waiting = made_patient(url, monkeypatch)
    held = hold_open()
    broker.send("q", 1)
    settling = Background(lambda: tabular.settled("audit"))
    eventually(is_waiting)
    Background(lambda: broker.send_many("q", range(3))).result(within=PATIENT / 2)
    assert settling.is_running
    held.rollback()
    settling.result(within=PATIENT)


def test_an_open_transaction_of_the_one_writer_hides_nothing(broker: Broker, url: str, hold_open: Hold, kind: str) -> None:
    if kind != "sqlite":
        pytest.skip("others write at the same time there")
    broker.send("q", 1)
    held = hold_open()
    with open_tabular(url) as tabular:
        follower = Follower(tabular)
        assert follower.follow() == 1
        held.commit()
        assert follower.follow() == 1


@on_servers
@pytest.mark.parametrize(
    ("processes", "least"), [(2, 300), pytest.param(4, 3_000, marks=pytest.mark.prove("3,000 lines, 20 s; 300 lines stand for it"))]
)
@pytest.mark.timeout(300)
def test_many_writers_at_once_and_every_line_is_read_exactly_once(
    broker: Broker, tabular: Tabular, database: Database, start: Start, processes: int, least: int
) -> None:
    """Each process writes from two threads."""
    broker.configure("q", keep="outcome")
    writers = [start("writing", database.url, name) for name in range(processes)]
    for writer in writers:
        writer.await_said("wrote", within=WITHIN)
    followers = [Follower(tabular, log) for log in LOGS]

    def has_read_enough() -> bool:
        for follower in followers:
            follower.follow()
        return len(followers[1].lines) > least

    eventually(has_read_enough, within=WITHIN)
    for writer in writers:
        writer.finish(WITHIN)
    for follower, log in zip(followers, LOGS, strict=True):
        eventually(lambda follower=follower, log=log: follower.follow() == 0 and follower.line == tabular.last_line(log))  # type: ignore[misc]
        assert follower.lines == lines_of(database, log), log


class Crowded:
    """A log that is never without somebody who writes to it: a reader does not get the lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.roles: list[str] = []
        ask = MariadbWatermark._ask

        def ask_among_many(watermark: MariadbWatermark, log: str, role: str) -> int | None:
            self.roles.append(role)
            return None if role == "reader" else ask(watermark, log, role)

        monkeypatch.setattr(MariadbWatermark, "_ask", ask_among_many)


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_where_there_is_always_somebody_who_writes_the_lock_is_asked_for_as_a_writer(
    broker: Broker, tabular: Tabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = Crowded(monkeypatch)
    broker.send("q", 1)
    assert tabular.settled("audit") == tabular.last_line("audit")
    assert crowded.roles == ["reader", "writer"]
    broker.send("q", 2)  # nothing is left locked
    assert tabular.settled("audit") == tabular.last_line("audit")
    assert crowded.roles == ["reader", "writer", "writer"]


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_but_not_while_somebody_keeps_a_transaction_open(
    broker: Broker, tabular: Tabular, monkeypatch: pytest.MonkeyPatch, hold_open: Hold
) -> None:
    crowded = Crowded(monkeypatch)
    broker.send("q", 1)
    before = tabular.settled("audit")
    hold_open()
    broker.send("q", 2)
    crowded.roles.clear()
    assert tabular.settled("audit") == before
    assert crowded.roles == []
