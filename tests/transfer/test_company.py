"""Others are at work while a copy runs: consumers that settle, senders, open transactions, another copy, a database that fails."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Draft, OutcomeUnknown, StoreBusy, StoreError, StoreFull
from rowq.store.sqlite.dialect import Sqlite
from rowq.store.transfer import exporter
from rowq.transfer.copy import open_copier
from tests.store.driver import Spy, ask
from tests.support.background import Background
from tests.support.database import PostgresqlDatabase, SqliteDatabase
from tests.support.life import drain, take
from tests.support.patience import eventually
from tests.support.servers import own_postgresql
from tests.support.tables import faults_of
from tests.transfer.conftest import Open
from tests.transfer.journey import Journey, copy, copy_in_pieces, everything


class Consumer:
    """Receives and acks, from a thread of its own, for as long as it is let; so many at most, so that some are left to others."""

    def __init__(self, url: str, most: int) -> None:
        self.acked: list[str] = []
        self._most = most
        self._stop = threading.Event()
        self._url = url
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _consume(self) -> None:
        with rowq.connect(self._url, maintenance=False) as broker:
            while not self._stop.is_set():
                most = min(20, self._most - len(self.acked))
                for delivery in broker.receive("q", max=most, wait=0.05, lease=600) if most else []:
                    broker.ack(delivery)
                    self.acked.append(delivery.id)


def test_every_message_is_done_at_one_of_the_two_at_least(some_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that goes on settling what it has loses nothing; what it had when it was copied is delivered once more."""
    monkeypatch.setattr(exporter, "PIECE", 50)
    ids = some_journey.source.send_many("q", [Draft(n, group=f"g{n % 3}" if n % 2 else None) for n in range(600)])
    consumer = Consumer(some_journey.source_url, most=400)
    eventually(lambda: len(consumer.acked) > 20)
    some_journey.copy()
    consumer.stop()
    there = Counter(message.id for message in some_journey.target.walk("q"))
    assert set(there.values()) == {1}
    assert set(consumer.acked) | set(there) == set(ids)
    assert len(set(consumer.acked) & set(there)) <= 20
    assert [message.id for message in some_journey.source.walk("q") if message.id not in there] == []
    assert len(drain(some_journey.target)) == len(there)


def test_a_late_settle_at_the_source_is_a_redelivery_at_the_target(journey: Journey) -> None:
    id = journey.source.send("q", 1)
    delivery = take(journey.source, lease=3600)
    journey.copy()
    journey.source.ack(delivery)
    assert journey.source.stats("q").depth == 0
    again = take(journey.target)
    assert (again.id, again.attempt) == (id, 1)
    with pytest.raises(rowq.LeaseLost):
        journey.target.ack(delivery)


def test_consumers_may_be_waited_for(some_journey: Journey) -> None:
    some_journey.source.send_many("q", range(3))
    delivery = take(some_journey.source, lease=3600)
    with some_journey.begun() as copier:
        waiting = Background(partial(copier.begin, 60))
        some_journey.source.ack(delivery)
        assert waiting.result(60) == 0
        some_journey.go_on(copier)
    assert drain(some_journey.target) == [1, 2]


def test_whoever_takes_longer_is_not_waited_for_any_longer(short_journey: Journey) -> None:
    short_journey.source.send("q", 1)
    take(short_journey.source, lease=3600)
    with short_journey.begun() as copier:
        assert copier.begin(0.05) == 1
        short_journey.go_on(copier)
    assert drain(short_journey.target) == [1]


def test_a_lease_that_has_run_out_is_not_waited_for(short_journey: Journey) -> None:
    short_journey.source.send("q", 1)
    eventually(lambda: short_journey.source.receive("q", lease=0.2))  # an answer that took too long for so short a lease is not given
    with short_journey.begun() as copier:
        assert Background(partial(copier.begin, 3600)).result(60) == 0


def test_senders_lose_nothing(some_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to the source during a copy comes with that one or with the next."""
    monkeypatch.setattr(exporter, "PIECE", 20)
    ids = some_journey.source.send_many("q", range(200))
    stop = threading.Event()

    def send() -> list[str]:
        with rowq.connect(some_journey.source_url, maintenance=False) as broker:
            sent: list[str] = []
            while not stop.is_set() and len(sent) < 1_000:
                sent += broker.send_many("q", [Draft("late", group="g"), "late"])
            return sent

    sending = Background(send)
    some_journey.copy()
    stop.set()
    ids += sending.result(60)
    some_journey.copy()
    assert sorted(everything(some_journey.target)) == sorted(ids)


@pytest.mark.parametrize("pair", ["postgresql-sqlite", "mariadb-sqlite"])
def test_an_open_transaction_that_has_sent_is_waited_for(open_journey: Open, pair: str) -> None:
    """Its messages have lower numbers than some that are there already, and would be passed by."""
    journey = open_journey(pair)
    journey.source.send("q", "first")
    connection = journey.source_database.connection()
    inside = journey.source.within(connection).send("q", "inside")
    journey.source.send("q", "last")
    copying = Background(journey.copy)
    eventually(lambda: journey.source.stats("q").paused)
    copying.join(0.3)
    assert copying.is_running
    connection.commit()
    connection.close()
    (report,) = copying.result(60)
    assert (report.copied, report.later, report.agrees) == (3, 0, True)
    assert drain(journey.target) == ["first", "inside", "last"]
    assert journey.target.audit(inside)


def test_what_was_written_behind_the_back_of_the_copy_is_found_by_comparing(short_journey: Journey) -> None:
    """As if a sender had drawn its number, been stopped, and woken up when the copy had passed it."""
    ids = short_journey.source.send_many("q", [Draft(n, group="g") for n in range(4)])
    path = short_journey.source_url.removeprefix("sqlite:///")
    with short_journey.begun() as copier:
        for stage in copier.stages():
            if stage.title == "messages":
                hide(path, "rowq_messages_aside")
            stage.run(lambda done: None)
            if stage.title == "messages":
                show(path, "rowq_messages_aside")
        assert len(everything(short_journey.target)) == 3
        (report,) = copier.finish()
    assert (report.copied, report.agrees) == (4, True)
    assert sorted(everything(short_journey.target)) == sorted(ids)
    assert faults_of(short_journey.target_url) == {}
    assert drain(short_journey.target) == [0, 1, 2, 3]


def hide(path: str, aside: str) -> None:
    """The second message is not there yet."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {aside} AS SELECT * FROM rowq_messages WHERE seq = 2")
        connection.execute("DELETE FROM rowq_messages WHERE seq = 2")
    connection.close()


def show(path: str, aside: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"INSERT INTO rowq_messages SELECT * FROM {aside}")
        connection.execute(f"DROP TABLE {aside}")
    connection.close()


def test_two_copies_at_once_double_nothing(some_journey: Journey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "PIECE", 10)
    ids = some_journey.source.send_many("q", range(300))
    both = [Background(partial(copy, some_journey.source_url, some_journey.target_url)) for _ in range(2)]
    refusals = [str(refused) for one in both if (refused := refusal_of(one)) is not None]
    assert len(refusals) <= 1
    assert all("another process is copying" in refused for refused in refusals)
    assert list(everything(some_journey.target)) == ids
    assert all(len(some_journey.target.audit(id)) == 1 for id in ids[:20])


def refusal_of(copying: Background[Any]) -> StoreBusy | None:
    try:
        copying.result(60)
    except StoreBusy as refused:
        return refused
    return None


def test_a_target_without_room_keeps_what_it_has_and_takes_the_rest_later(
    tmp_path: Path, open_journey: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy, room = Spy(), [0]

    def limit(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "BEGIN IMMEDIATE" and "target" in ask(connection, "SELECT file FROM pragma_database_list WHERE name = 'main'"):
            ask(connection, f"PRAGMA max_page_count = {room[0] or 1 << 30}")

    spy.before = limit
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=spy.connection()))
    journey = open_journey("sqlite-sqlite")
    ids = journey.source.send_many("q", ["x" * 2_000 for _ in range(2_000)])
    room[0] = 2_000
    with pytest.raises(StoreFull, match="free some space"):
        journey.copy(with_audit=False)
    arrived = journey.target.stats("q").ready
    assert 0 < arrived < 2_000
    assert journey.target.stats("q").paused
    room[0] = 0
    journey.copy(with_audit=False)
    assert list(everything(journey.target)) == ids


@pytest.mark.parametrize("is_written", [False, True], ids=["lost", "written"])
def test_a_commit_whose_answer_is_lost_is_looked_up(short_journey: Journey, monkeypatch: pytest.MonkeyPatch, is_written: bool) -> None:
    monkeypatch.setattr(exporter, "PIECE", 10)
    ids = short_journey.source.send_many("q", range(50))
    target, commit, commits = short_journey.target_url, Sqlite.commit, Counter[str]()

    def commit_in_doubt(self: Sqlite) -> None:
        commits[self.path] += 1
        if self.path in target and commits[self.path] % 3 == 0 and commits[self.path] < 40:
            if is_written:
                commit(self)
            else:
                self.roll_back()
            raise OutcomeUnknown("nobody knows")
        commit(self)

    monkeypatch.setattr(Sqlite, "commit", commit_in_doubt)
    for _ in range(20):
        try:
            short_journey.copy()
            break
        except OutcomeUnknown:  # of a step that is not a piece: it is told, and the next run goes on
            continue
    assert list(everything(short_journey.target)) == ids
    assert all(len(short_journey.target.audit(id)) == 1 for id in ids)


@pytest.mark.parametrize("restarts", [False, True], ids=["stays-away", "comes-back"])
def test_a_target_that_dies_in_the_middle_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool) -> None:
    monkeypatch.setattr(exporter, "PIECE", 50)
    source = SqliteDatabase(tmp_path)
    with rowq.connect(source.url, maintenance=False) as broker, own_postgresql(tmp_path) as server:
        server.create_database("jobs")
        ids = broker.send_many("q", [Draft(n, key=f"k{n}", group=f"g{n % 7}") for n in range(500)])
        url = f"{server.url('jobs')}&timeout={20 if restarts else 1}"
        dies = OnceAfter(200, server.restart if restarts else server.kill)
        try:
            run_with(source.url, url, dies)
        except StoreError:
            server.start()
            copy_in_pieces(source.url, url)
        assert dies.has_happened
        with rowq.connect(url, maintenance=False) as target:
            assert sorted(everything(target)) == sorted(ids)
        assert faults_of(server.url("jobs")) == {}


class OnceAfter:
    """Something that happens when so much is done."""

    def __init__(self, count: int, what: Callable[[], Any]) -> None:
        self._count = count
        self._what = what
        self.has_happened = False

    def __call__(self, done: int) -> None:
        if done >= self._count and not self.has_happened:
            self.has_happened = True
            self._what()


def run_with(source: str, target: str, advance: Callable[[int], None]) -> None:
    with open_copier(source, target, None, actor=None) as copier:
        copier.begin()
        for stage in copier.stages():
            stage.run(advance if stage.title == "messages" else lambda done: None)
        copier.finish()


def test_a_source_behind_a_url_with_a_schema_of_its_own(tmp_path: Path) -> None:
    """The tables are found wherever the URL puts them, on both sides."""
    database = PostgresqlDatabase()
    here, there = (f"{database.url}&schema={name}" for name in ("here", "there"))
    with rowq.connect(here, maintenance=False) as broker:
        ids = broker.send_many("q", range(3))
    copy_in_pieces(here, there)
    with rowq.connect(there, maintenance=False) as broker:
        assert list(everything(broker)) == ids
