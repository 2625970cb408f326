"""Consumers in processes of their own that are killed, stopped in their tracks, and joined by others: all messages are processed."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import rowq
from tests.rivals.process import Rival, Start
from tests.support.database import Database
from tests.support.patience import eventually
from tests.support.server import Server
from tests.support.tables import faults_of
from tests.workers.handling import Notes

MESSAGES = 10_000
BATCH, LEASE, BEAT, DEAD_AFTER = 20, 3, 0.3, 1.5


def did(rival: Rival) -> list[str]:
    return [id for (id,) in rival.said("did")]


both_ways = pytest.mark.parametrize("way", ["competing", "partitioned"])


@both_ways
@pytest.mark.timeout(120)
def test_all_is_processed_although_two_are_killed_and_one_is_added(database: Database, start: Start, way: str) -> None:
    with rowq.connect(database.url) as broker:
        process_all(broker, database.url, start, way)
    assert faults_of(database.url) == {}


@both_ways
@pytest.mark.timeout(120)
def test_all_is_processed_over_http_too(server: Server, file_url: str, start: Start, way: str) -> None:
    with rowq.connect(server.url) as broker:
        process_all(broker, server.url, start, way)
    assert faults_of(file_url) == {}


def process_all(broker: rowq.Broker, url: str, start: Start, way: str) -> None:
    rivals = [start("consuming", url, way, BATCH, LEASE, BEAT, DEAD_AFTER) for _ in range(6)]
    for rival in rivals:
        rival.await_said("connected")
    *five, added = rivals
    for rival in five:
        rival.tell("go")
        rival.await_said("registered")
    eventually(lambda: len(broker.consumers("q", dead_after=DEAD_AFTER)) == 5)
    sent = [id for start in range(0, MESSAGES, 1_000) for id in broker.send_many("q", range(start, start + 1_000))]

    def all_did(some: list[Rival], more_than: int) -> bool:
        """Asked again and again, it keeps messages waiting: on a slow machine the quick ones would leave nothing to the others."""
        if broker.stats("q").ready == 0:
            sent.extend(broker.send_many("q", range(len(sent), len(sent) + 1_000)))
        return all(len(did(rival)) > more_than for rival in some)

    killed, staying = five[:2], [*five[2:], added]
    for rival in killed:
        eventually(partial(all_did, [rival], 50))
        rival.kill()
    added.tell("go")
    eventually(partial(all_did, rivals, 0))
    eventually(lambda: broker.stats("q").finished == len(sent), within=60)
    eventually(lambda: len(broker.consumers("q", dead_after=DEAD_AFTER)) == 4)
    with ThreadPoolExecutor(len(staying)) as pool:
        list(pool.map(Rival.finish, staying))
    assert broker.consumers("q", dead_after=DEAD_AFTER) == []
    by_all = Counter(id for rival in rivals for id in did(rival))
    assert by_all.keys() == set(sent)
    twice = {id for id, times in by_all.items() if times > 1}
    assert twice <= {id for rival in killed for id in did(rival)}, "two that lived did the same message"
    assert len(twice) <= 2 * BATCH


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
        (member,) = broker.consumers("q", dead_after=60)
        assert member.id != first
        assert broker.get(id).consumer in (None, member.id)
        delivered = [event for event in broker.audit(id) if event.event == "delivered"]
        assert delivered[-1].at >= member.born_at
        rival.finish()


def test_what_a_killed_consumer_held_is_failed_at_most_once(database: Database, start: Start) -> None:
    rival = start("consuming", database.url, "competing", 1000, 0.5, 0.1, 1, "at_most_once")
    with rowq.connect(database.url) as broker:
        rival.await_said("connected")
        rival.tell("go")
        rival.await_said("registered")
        sent = broker.send_many("q", range(500))
        eventually(lambda: did(rival))
        rival.kill()
        done = did(rival)
        notes = Notes()
        with broker.consumer("q", notes, delivery="at_most_once", wait=0.1):
            eventually(lambda: broker.stats("q").finished == 500)
        assert not {delivery.id for delivery in notes.taken} & set(done)
        outcomes = Counter(broker.get(id).outcome for id in sent)
        assert set(outcomes) <= {"acked", "failed"}
        assert all(broker.get(id).attempts == 1 for id in done)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("where", ["thread", "task"])
def test_sigterm_ends_a_running_consumer_in_good_order(file_url: str, start: Start, where: str, times: int) -> None:
    rival = start("running", file_url, where)
    with rowq.connect(file_url) as broker:
        rival.await_said("running")
        broker.configure("q", keep="outcome")  # whoever comes first makes the queue: we, or the consumer
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
