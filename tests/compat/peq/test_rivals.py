"""Many at once: clients in SQL beside consumers in Python, in each other's way, and some that are killed."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

import rowq
from tests.compat.peq.sql import NOBODY, Sql
from tests.rivals.process import Rival
from tests.support.patience import eventually

Part = Callable[[str, list[str], int, str], None]


def in_sql(url: str, done: list[str], messages: int, name: str) -> None:
    sql = Sql(url)
    while len(done) < messages:
        id, _ = sql.dequeue(name)
        if id != NOBODY:
            sql.ack(id, name)
            done.append(str(id))
    sql.close()


def in_python(url: str, done: list[str], messages: int, name: str) -> None:
    with rowq.connect(url, maintenance=False) as broker:
        while len(done) < messages:
            deliveries = broker.receive("test01", max=5, wait=0.05, consumer=name)
            assert set(broker.ack_many(deliveries)) <= {rowq.Outcome.DONE}
            done.extend(delivery.id for delivery in deliveries)


def together(url: str, messages: int, *parts: Part) -> list[str]:
    done: list[str] = []
    with ThreadPoolExecutor(len(parts)) as pool:
        for future in [pool.submit(part, url, done, messages, f"client{number}") for number, part in enumerate(parts)]:
            future.result(500)
    return done


def sizes(short: int, full: int) -> pytest.MarkDecorator:
    marks = pytest.mark.prove(f"seconds of rivals for {full} messages; {short} stand for them")
    return pytest.mark.parametrize("messages", [short, pytest.param(full, marks=marks)])


@sizes(200, 2_000)
@pytest.mark.parametrize("parts", [[in_sql] * 8, [in_sql] * 6 + [in_python] * 2], ids=["in SQL", "beside Python"])
@pytest.mark.timeout(600)
def test_eight_clients_share_a_queue_nothing_twice_nothing_lost(
    url: str, sql: Sql, broker: rowq.Broker, parts: list[Part], messages: int
) -> None:
    ids = set(broker.send_many("test01", range(messages // 2)))
    for number in range(messages // 2):
        sql.enqueue(number)
    ids |= {message.id for message in broker.walk("test01")}
    done = together(url, messages, *parts)
    assert len(done) == messages
    assert set(done) == ids
    stats = broker.stats("test01")
    assert (stats.depth, stats.dead, stats.finished) == (0, 0, messages)
    twice = "SELECT seq FROM rowq.rowq_audit_lines WHERE event IN ('delivered', 'acked') GROUP BY seq, event HAVING COUNT(*) > 1"
    assert sql(twice) == []


@sizes(60, 400)
@pytest.mark.timeout(600)
def test_a_queue_is_filled_and_emptied_at_once(url: str, sql: Sql, messages: int) -> None:
    """Every third message is put back once, and every fifth waits for a moment."""
    done: set[UUID] = set()
    count, senders = messages // 2, 2

    def send() -> None:
        own = Sql(url)
        for number in range(count):
            own.enqueue(number, message_id=uuid4())
        own.close()

    def work(name: str) -> None:
        own, seen = Sql(url), set[UUID]()
        while len(done) < count * senders:
            id, number = own.dequeue(name)
            if id == NOBODY:
                continue
            if id not in seen and number % 3 == 0:
                own.nak(id, name)
            elif id not in seen and number % 5 == 0:
                own("CALL test01.message_reschedule(%s, -1, %s)", id, name)
            else:
                own.ack(id, name)
                assert id not in done
                done.add(id)
            seen.add(id)
        own.close()

    sql.set("max_retries", -1)
    with ThreadPoolExecutor(5) as pool:
        for future in [*(pool.submit(send) for _ in range(senders)), *(pool.submit(work, f"client{number}") for number in range(3))]:
            future.result(500)
    assert sql("SELECT COUNT(*) FROM test01.message_queue") == [(0,)]
    assert sql("SELECT COUNT(*) FROM test01.message_history") == [(count * senders,)]


@sizes(60, 300)
@pytest.mark.timeout(600)
def test_an_operator_takes_messages_out_of_everybodys_hands(url: str, sql: Sql, broker: rowq.Broker, messages: int) -> None:
    """Whoever has lost a message is told so, each is acked once, and nobody waits for ever."""
    done = list[str]()
    ids = broker.send_many("test01", range(messages), max_attempts=0)

    def reschedule(seed: int) -> None:
        own, chosen = Sql(url), random.Random(seed)
        for id in chosen.choices(ids, k=messages):
            with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):  # it is done
                own("CALL test01.message_reschedule(%s, -1)", id)
        own.close()

    def work_in_sql(name: str) -> None:
        own = Sql(url)
        while len(done) < messages:
            id, _ = own.dequeue(name)
            with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):
                if id != NOBODY:
                    own.ack(id, name)
                    done.append(str(id))
        own.close()

    def work_in_python(name: str) -> None:
        with rowq.connect(url, maintenance=False) as other:
            while len(done) < messages:
                deliveries = other.receive("test01", max=3, wait=0.05, consumer=name)
                outcomes = other.ack_many(deliveries)
                done.extend(delivery.id for delivery, outcome in zip(deliveries, outcomes, strict=True) if outcome == "done")

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(reschedule, seed) for seed in (1, 2)]
        futures += [pool.submit(work, f"{work.__name__}{number}") for number in (1, 2) for work in (work_in_sql, work_in_python)]
        for future in futures:
            future.result(500)
    assert sorted(done) == sorted(ids)
    assert broker.stats("test01").depth == 0


@pytest.mark.parametrize("committed", [False, True])
def test_a_client_that_is_killed_in_its_transaction_loses_nothing(url: str, sql: Sql, tmp_path: Path, committed: bool) -> None:
    own = uuid4()
    sql.enqueue("work", message_id=own)
    client = Rival("dying", url, tmp_path / "dying.log", committed, package="tests.compat.peq")
    try:
        client.await_said("holds")
        client.kill()
    finally:
        client.clear_away()
    if committed:
        assert sql("SELECT message_id, message_state_id, leased_by FROM test01.message_queue WHERE leased_by IS NOT NULL") == [
            (own, 2, "doomed")
        ]
        sql.let_pass(31)
    assert eventually(lambda: (found := sql.dequeue())[0] != NOBODY and found) == (own, "work")
    events = [
        line[0]
        for line in sql("SELECT event FROM rowq.rowq_audit_lines WHERE seq = (SELECT MIN(seq) FROM rowq.rowq_audit_lines) ORDER BY id")
    ]
    assert events == (["enqueued", "delivered", "lease_expired", "delivered"] if committed else ["enqueued", "delivered"])
    assert (sql.dequeue()[1] == "unsent") is committed


def test_what_one_transaction_holds_the_others_pass_over(url: str, sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue("first")
    sql.enqueue("second")
    with psycopg.connect(url) as mine:
        assert mine.execute("SELECT msg_json FROM test01.dequeue('slow')").fetchall() == [("first",)]
        assert sql.dequeue()[1] == "second"
        assert sql.dequeue() == (NOBODY, {})
        assert broker.receive("test01") == []
        mine.rollback()
    assert [delivery.payload for delivery in broker.receive("test01")] == ["first"]


def test_an_enqueue_belongs_to_the_callers_transaction(url: str, sql: Sql, broker: rowq.Broker) -> None:
    with psycopg.connect(url) as mine:
        mine.execute("CALL test01.enqueue('1')")
        assert sql.dequeue() == (NOBODY, {})
        mine.rollback()
        mine.execute("CALL test01.enqueue('2')")
    assert [delivery.payload for delivery in broker.receive("test01")] == [2]


def test_a_reschedule_waits_for_whoever_is_taking_the_message(url: str, sql: Sql, broker: rowq.Broker) -> None:
    own = uuid4()
    sql.enqueue(1, message_id=own)
    with psycopg.connect(url) as mine:
        mine.execute("SELECT * FROM test01.dequeue('quick')")
        operator = threading.Thread(target=sql, args=("CALL test01.message_reschedule(%s, 60)", own))
        operator.start()
        eventually(lambda: somebody_waits(url))
        mine.commit()
        operator.join(20)
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            mine.execute("CALL test01.message_ack(%s, 'quick', 'mine')", [own])
    assert broker.get(str(own)).state == "scheduled"


def test_a_transaction_that_goes_on_holds_what_it_needs_and_no_more(url: str, sql: Sql) -> None:
    for number in range(20):
        sql.enqueue(number, delay_seconds=60 * (number % 2))
    leased = [sql.dequeue()[1] for _ in range(10)]
    sql.let_pass(61)
    with psycopg.connect(url) as mine:
        ((held,),) = mine.execute("SELECT msg_json FROM test01.dequeue('slow')").fetchall()
        others = [sql.dequeue()[1] for _ in range(20)]
        meanwhile = [payload for payload in others if payload != {}]
        assert len(meanwhile) >= 18
    rest = [sql.dequeue()[1] for _ in range(20 - 1 - len(meanwhile))]
    assert sorted([held, *meanwhile, *rest]) == list(range(20))
    assert len(leased) == 10


def test_a_lease_begins_when_the_waiting_for_others_is_over(url: str, sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", throughput_limit=5)
    sql.enqueue("first")
    sql.enqueue("second")
    with psycopg.connect(url) as mine:
        mine.execute("SELECT * FROM test01.dequeue('slow')")
        other = threading.Thread(target=sql.dequeue, args=("patient",))
        other.start()
        eventually(lambda: somebody_waits(url))
        ((waiting,),) = mine.execute("SELECT test01.rowq_now()").fetchall()
        mine.commit()
        other.join(20)
    assert sql("SELECT leased_at >= %s FROM rowq.rowq_leased WHERE consumer = 'patient'", waiting) == [(True,)]


def somebody_waits(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as eyes:
        return bool(eyes.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").fetchall())
