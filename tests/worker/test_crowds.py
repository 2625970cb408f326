"""Consumers in processes of their own that are killed, stopped in their tracks, and joined by others: all messages are processed."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

import rowq
from tests.rivals.process import Rival, Start
from tests.support.database import Database, run
from tests.support.patience import eventually
from tests.support.server import Server
from tests.support.tables import faults_of
from tests.worker.handling import Notes

pytestmark = pytest.mark.one_of("database")

BATCH, BEAT = 20, 0.3
LEASE, DEAD_AFTER = 600, 60
"""Longer than any machine stands still: those that are killed are put into the past instead (`let_time_pass_for`)."""

OTHERWISE = pytest.mark.prove("a process each; once in a thread and twice in a task stand for it")
FULL = pytest.mark.prove("20 s of processes and ten thousand messages; the short one stands for it")
CROWDS = [pytest.param(3, 1, 200, id="short"), pytest.param(6, 2, 10_000, id="full", marks=FULL)]
"""How many consumers, how many of them are killed, how many messages at first."""


def did(rival: Rival) -> list[str]:
    return [id for (id,) in rival.said("did")]


both_ways = pytest.mark.parametrize("way", ["competing", "partitioned"])
in_crowds = pytest.mark.parametrize(("consumers", "kills", "messages"), CROWDS)


@both_ways
@in_crowds
@pytest.mark.timeout(300)
def test_all_is_processed_although_some_are_killed_and_one_is_added(
    database: Database, start: Start, way: str, consumers: int, kills: int, messages: int
) -> None:
    with rowq.connect(database.url) as broker:
        broker.configure("q", keep="outcome")
        rivals = [start("consuming", database.url, way, BATCH, LEASE, BEAT, DEAD_AFTER) for _ in range(consumers)]
        process_all(broker, database, rivals, kills, messages)
    assert faults_of(database.url) == {}


@both_ways
@in_crowds
@pytest.mark.timeout(300)
def test_all_is_processed_over_http_too(
    server: Server, file_database: Database, start: Start, way: str, consumers: int, kills: int, messages: int
) -> None:
    with rowq.connect(server.url) as broker:
        broker.configure("q", keep="outcome")
        rivals = [start("consuming", server.url, way, BATCH, LEASE, BEAT, DEAD_AFTER) for _ in range(consumers)]
        process_all(broker, file_database, rivals, kills, messages)
    assert faults_of(file_database.url) == {}


def let_time_pass_for(ids: list[str], database: Database) -> None:
    """What these consumers said last, and their leases, are an hour older than they are."""
    names = ", ".join(f"'{id}'" for id in ids)
    prefix = "rowq." if database.url.startswith("postgresql") else ""
    with closing(database.connection()) as connection:
        run(connection, f"UPDATE {prefix}rowq_leased SET lease_until = lease_until - 3600000 WHERE consumer IN ({names})")
        run(connection, f"UPDATE {prefix}rowq_consumers SET beat_at = beat_at - 3600000 WHERE id IN ({names})")
        connection.commit()


def process_all(broker: rowq.Broker, database: Database, rivals: list[Rival], kills: int, messages: int) -> None:
    for rival in rivals:
        rival.await_said("connected")
    *first, added = rivals
    for rival in first:
        rival.tell("go")
        rival.await_said("registered")
    eventually(lambda: len(broker.consumers("q", dead_after=DEAD_AFTER)) == len(first))
    sent = [id for start in range(0, messages, 200) for id in broker.send_many("q", range(start, start + 200))]

    def all_did(some: list[Rival], more_than: int) -> bool:
        """Asked again and again, it keeps messages waiting: on a slow machine the quick ones would leave nothing to the others."""
        if broker.stats("q").ready == 0:
            sent.extend(broker.send_many("q", range(len(sent), len(sent) + 500)))
        return all(len(did(rival)) > more_than for rival in some)

    killed, staying = first[:kills], [*first[kills:], added]
    for rival in killed:
        eventually(partial(all_did, [rival], BATCH))
        rival.kill()
    let_time_pass_for([id for rival in killed for (id,) in rival.said("registered")], database)
    added.tell("go")
    eventually(partial(all_did, rivals, 0))
    eventually(lambda: broker.stats("q").finished == len(sent), within=120)
    eventually(lambda: len(broker.consumers("q", dead_after=DEAD_AFTER)) == len(staying))
    with ThreadPoolExecutor(len(staying)) as pool:
        list(pool.map(Rival.finish, staying))
    assert broker.consumers("q", dead_after=DEAD_AFTER) == []
    by_all = Counter(id for rival in rivals for id in did(rival))
    assert by_all.keys() == set(sent)
    twice = {id for id, times in by_all.items() if times > 1}
    assert twice <= {id for rival in killed for id in did(rival)}, "two that lived did the same message"
    assert len(twice) <= kills * BATCH


def stop_between_transactions(rival: Rival, url: str) -> None:
    """One that stands still inside a transaction keeps the file of SQLite locked for everybody."""
    with rowq.connect(f"{url}{'&' if '?' in url else '?'}timeout=1") as broker:
        for _ in range(20):
            rival.signal(signal.SIGSTOP)
            try:
                broker.send("beside", 1)
            except rowq.StoreBusy:
                rival.signal(signal.SIGCONT)
            else:
                return
    pytest.fail("it was inside a transaction, again and again")


def test_one_that_is_stopped_in_its_tracks_does_nothing_until_it_has_registered_again(database: Database, start: Start) -> None:
    rival = start("consuming", database.url, "partitioned", BATCH, 60, 0.1, 0.5)
    with rowq.connect(database.url) as broker:
        rival.await_said("connected")
        rival.tell("go")
        ((first,),) = rival.await_said("registered")
        stop_between_transactions(rival, database.url)
        eventually(lambda: broker.consumers("q", dead_after=0.5) == [])
        id = broker.send("q", "x")
        rival.signal(signal.SIGCONT)
        eventually(lambda: did(rival) == [id])
        assert first not in [member.id for member in broker.consumers("q", dead_after=60)]
        delivered = [event.actor for event in broker.audit(id) if event.event == "delivered"]
        assert delivered[-1] not in (None, first)  # one that comes to it too late is given back
        rival.finish()


def test_what_a_killed_consumer_held_is_failed_at_most_once(database: Database, start: Start) -> None:
    rival = start("consuming", database.url, "competing", 1000, LEASE, BEAT, DEAD_AFTER, "at_most_once")
    with rowq.connect(database.url) as broker:
        broker.configure("q", keep="outcome", on_exhausted="fail", delivery="at_most_once")
        rival.await_said("connected")
        rival.tell("go")
        ((killed,),) = rival.await_said("registered")
        sent = broker.send_many("q", range(500))
        eventually(lambda: did(rival))
        rival.kill()
        done = did(rival)
        let_time_pass_for([killed], database)
        notes = Notes()
        with broker.consumer("q", notes, delivery="at_most_once"):
            eventually(lambda: broker.stats("q").finished == 500)
        assert not {delivery.id for delivery in notes.taken} & set(done)
        outcomes = Counter(broker.get(id).outcome for id in sent)
        assert set(outcomes) <= {"acked", "failed"}
        assert all(broker.get(id).attempts == 1 for id in done)


@pytest.mark.parametrize(
    ("where", "times"),
    [("thread", 1), ("task", 2), *(pytest.param(*more, marks=OTHERWISE) for more in (("thread", 2), ("task", 1)))],
)
def test_sigterm_ends_a_running_consumer_in_good_order(file_url: str, start: Start, where: str, times: int) -> None:
    rival = start("running", file_url, where)
    with rowq.connect(file_url) as broker:
        rival.await_said("running")
        broker.configure("q", keep="outcome")
        ids = broker.send_many("q", range(3))
        rival.await_said("begun")
        for _ in range(times):
            rival.signal(signal.SIGTERM)
            eventually(lambda: broker.stats("q").leased == 1)
        rival.tell("go on")
        rival.await_said("ended")
        rival.finish()
        assert [broker.get(id).attempts for id in ids[1:]] == [0, 0]
        assert broker.get(ids[0]).outcome == "acked"
        assert broker.consumers("q") == []
