"""One queue with two sides: what is done in SQL, Python and HTTP see, and the other way round."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest

import rowq
from rowq import LeaseLost
from rowq.ids import message_id
from rowq.model.duration import LONGEST_MS
from rowq.model.retry import Exponential
from rowq.spark.ledger import open_ledger
from rowq.store.notify.notifier import Notification
from tests.compat.peq.sql import NOBODY, Sql
from tests.support.patience import eventually

PAYLOADS: list[Any] = [
    {},
    {"to": "ada", "n": [1, 2.5, None, True]},
    [],
    "text",
    "ä\u0000\U0001f600",
    7,
    None,
    False,
    10**30,
    {"a": {"b": [{}]}},
]


@pytest.mark.parametrize("side", ["broker", "remote"])
def test_what_sql_enqueues_the_others_receive(sql: Sql, side: str, request: pytest.FixtureRequest) -> None:
    other: rowq.Broker = request.getfixturevalue(side)
    for payload in PAYLOADS:
        sql.enqueue(payload)
    own = uuid4()
    sql.enqueue("mine", message_id=own)
    deliveries = other.receive("test01", max=100)
    assert [delivery.payload for delivery in deliveries] == [*PAYLOADS, "mine"]
    assert deliveries[-1].id == str(own)
    assert all(other.get(delivery.id).state == "leased" for delivery in deliveries)
    assert set(other.ack_many(deliveries)) == {rowq.Outcome.DONE}
    assert sql("SELECT COUNT(*) FROM test01.message_history") == [(len(deliveries),)]


@pytest.mark.parametrize("side", ["broker", "remote"])
def test_what_the_others_send_sql_dequeues(sql: Sql, side: str, request: pytest.FixtureRequest) -> None:
    other: rowq.Broker = request.getfixturevalue(side)
    ids = other.send_many("test01", PAYLOADS)
    for id, payload in zip(ids, PAYLOADS, strict=True):
        assert sql.dequeue() == (UUID(id), payload)
        sql.ack(UUID(id), reason="done in SQL")
        assert [(event.event, event.actor) for event in other.audit(id)][1:] == [("delivered", "client01"), ("acked", "client01")]
        assert other.get(id).outcome == "acked"


def test_an_id_is_made_as_the_engine_makes_it(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1)
    sql.enqueue(2)
    rows = sql("SELECT seq, sent_at FROM rowq.rowq_messages ORDER BY seq")
    assert [message.id for message in broker.browse("test01")] == [message_id(*row) for row in rows]
    assert [row[0] for row in sql("SELECT message_id FROM test01.message_queue ORDER BY created_on, message_id")] == [
        UUID(message_id(*row)) for row in rows
    ]
    large = (1 << 61) + 5
    assert sql(f"SELECT test01.rowq_id({large}, 1, NULL), test01.rowq_seq(test01.rowq_id({large}, 1, NULL))") == [
        (UUID(message_id(large, 1)), large)
    ]


def test_an_id_that_is_no_uuid_has_one_all_the_same(sql: Sql, broker: rowq.Broker) -> None:
    broker.send("test01", 1, id="welcome-42")
    id, payload = sql.dequeue()
    assert payload == 1
    assert broker.get(str(id)).id == "welcome-42"
    sql.ack(id)
    assert broker.get("welcome-42").outcome == "acked"


def test_bytes_come_as_base64(sql: Sql, broker: rowq.Broker) -> None:
    broker.send("test01", b"\x00\x01\x02" * 40)
    assert sql.dequeue()[1] == {"payload_base64": "AAEC" * 40}


def test_a_payload_is_kept_as_it_stands(sql: Sql, broker: rowq.Broker) -> None:
    sql("""CALL test01.enqueue('{"b" :1, "a": 1.50}')""")
    assert sql("SELECT payload FROM rowq.rowq_messages") == [(b'{"b" :1, "a": 1.50}',)]
    assert broker.receive("test01")[0].payload == {"b": 1, "a": 1.5}


@pytest.mark.parametrize("side", ["broker", "remote"])
def test_an_enqueue_in_sql_wakes_who_waits(sql: Sql, side: str, request: pytest.FixtureRequest) -> None:
    other: rowq.Broker = request.getfixturevalue(side)
    received: list[rowq.Delivery] = []
    waiter = threading.Thread(target=lambda: received.extend(other.receive("test01", wait=20)))
    waiter.start()
    eventually(lambda: sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"))
    sql.enqueue("now")
    waiter.join(20)
    assert [delivery.payload for delivery in received] == ["now"]


def test_what_becomes_ready_in_sql_is_told_as_the_engine_tells_it(url: str, sql: Sql, broker: rowq.Broker) -> None:
    ((identity,),) = sql("SELECT value FROM rowq.rowq_counters WHERE name = 'identity'")
    with psycopg.connect(url, autocommit=True) as ear:
        ear.execute(f"LISTEN rowq_{identity}")

        def heard() -> Notification:
            (arrived,) = ear.notifies(timeout=20, stop_after=1)
            sender, notification = msgspec.json.decode(arrived.payload, type=tuple[str, Notification])
            assert sender == "sql"
            return notification

        sql.enqueue(1)
        ((seq,),) = sql("SELECT seq FROM rowq.rowq_messages")
        ready = Notification({"test01": (1, (0, seq))}, False)
        assert heard() == ready
        id = sql.dequeue()[0]
        sql.nak(id)
        assert heard() == ready
        sql.enqueue(2, delay_seconds=60)
        sql("CALL test01.message_reschedule(%s, -1)", id)
        assert heard() == ready
        sql.set("lease_duration", 5)
        assert heard() == Notification({}, True)


def test_a_receipt_is_stale_once_sql_has_taken_over(sql: Sql, broker: rowq.Broker) -> None:
    broker.send("test01", 1)
    (delivery,) = broker.receive("test01", lease=10)
    sql.let_pass(11)
    id, _ = sql.dequeue()
    assert str(id) == delivery.id
    with pytest.raises(LeaseLost):
        broker.ack(delivery)
    sql.ack(id)


def test_a_client_of_sql_is_refused_once_python_has_taken_over(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue(lease=10)
    sql.let_pass(11)
    (delivery,) = eventually(lambda: broker.receive("test01", consumer="client02"))
    assert (delivery.id, delivery.attempt) == (str(id), 2)
    for verb in ("message_ack", "message_nak", "message_rej"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            sql(f"CALL test01.{verb}(%s, 'client01', 'late')", id)
    broker.ack(delivery)


def test_a_client_may_begin_on_one_side_and_end_on_the_other(sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("test01", 1)
    broker.receive("test01", consumer="client01")
    sql.ack(UUID(id))
    assert broker.get(id).outcome == "acked"


def test_a_nack_over_there_obeys_what_is_configured_here(sql: Sql, broker: rowq.Broker, remote: rowq.Broker) -> None:
    sql.set("max_retries", 1)
    sql.set("backoff_base", 10)
    eventually(lambda: remote.policy("test01").max_attempts == 2)
    assert remote.policy("test01").backoff == Exponential(20_000, cap_ms=LONGEST_MS)
    sql.enqueue(1)
    (delivery,) = remote.receive("test01")
    remote.nack(delivery, reason="here")
    message = broker.get(delivery.id)
    assert (message.due_at or 0) - message.sent_at >= 20_000
    sql.let_pass(21)
    id, _ = sql.dequeue()
    sql.nak(id, reason="there")
    assert broker.get(str(id)).reason == "max_attempts_reached"


def test_what_is_configured_over_there_is_obeyed_here(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", lease=45, backoff=[7, 8])
    sql.enqueue(1)
    id, _ = sql.dequeue()
    assert sql.audit()[-1][2] == "dequeued. lease seconds: 45"
    sql.nak(id)
    message = broker.get(str(id))
    assert 7_000 <= (message.due_at or 0) - message.sent_at < 17_000
    assert dict(sql("SELECT setting_name, setting_value FROM test01.queue_configuration"))["backoff_base"] is None


def test_a_setting_is_inserted_updated_and_deleted(sql: Sql, broker: rowq.Broker) -> None:
    sql("INSERT INTO test01.queue_configuration (setting_name, setting_value) VALUES ('max_retries', '-1'), ('item_ttl', '1.5')")
    assert (broker.policy("test01").max_attempts, broker.policy("test01").ttl_ms) == (0, 90_000)
    sql("UPDATE test01.queue_configuration SET setting_value = NULL WHERE setting_name = 'item_ttl'")
    sql("DELETE FROM test01.queue_configuration WHERE setting_name = 'max_retries'")
    shown = dict(sql("SELECT setting_name, setting_value FROM test01.queue_configuration"))
    assert (shown["max_retries"], shown["item_ttl"]) == ("7", "0")
    action = broker.actions("test01")[0]
    assert (action.event, action.actor, action.detail) == ("configured", "postgres", '{"max_retries" : null}')


@pytest.mark.parametrize(("factor", "base"), [("2", "10"), ("1.1", "0.5"), ("3", "7"), ("1", "3600")])
def test_a_backoff_reads_as_it_was_written(sql: Sql, broker: rowq.Broker, factor: str, base: str) -> None:
    written = {"backoff_base": base, "backoff_factor": factor, "backoff_jitter_min": "11", "backoff_jitter_max": "99"}
    for order in (list(written), list(reversed(written))):
        for name in order:
            sql.set(name, written[name])
        assert written.items() <= dict(sql("SELECT setting_name, setting_value FROM test01.queue_configuration")).items()
    backoff = broker.policy("test01").backoff
    assert isinstance(backoff, Exponential)
    assert (backoff.base_ms, backoff.plus_ms) == (round(float(base) * float(factor) * 1000), (11_000, 99_000))


def test_a_backoff_keeps_what_has_no_name_here(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", backoff=rowq.exponential(10, cap=60, jitter=0.5))
    sql.set("backoff_factor", 3)
    assert broker.policy("test01").backoff == Exponential(15_000, factor=3, cap_ms=60_000, jitter=0.5)
    sql.set("backoff_base", 100)
    assert broker.policy("test01").backoff == Exponential(300_000, factor=3, cap_ms=300_000, jitter=0.5)
    sql.set("backoff_base", 0.0001)
    assert broker.policy("test01").backoff == Exponential(0, factor=3, cap_ms=0, jitter=0.5)


def test_a_paused_queue_gives_nothing(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1)
    broker.pause("test01")
    assert sql.dequeue() == (NOBODY, {})
    broker.resume("test01")
    assert sql.dequeue()[1] == 1


def test_a_limited_queue_gives_so_many_a_second(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", throughput_limit=2)
    sql.stop_clock()
    for number in range(4):
        sql.enqueue(number)
    assert [sql.dequeue()[1] for _ in range(3)] == [0, 1, {}]
    sql("UPDATE rowq.rowq_buckets SET filled_at = filled_at - 1000")
    assert sql.dequeue()[1] == 2


def test_priorities_go_first_and_a_retry_to_its_old_place(sql: Sql, broker: rowq.Broker) -> None:
    broker.send("test01", "low", priority=-1)
    sql.enqueue("first")
    sql.enqueue("second")
    broker.send("test01", "high", priority=5)
    assert sql.dequeue()[1] == "high"
    id, payload = sql.dequeue()
    sql.nak(id)
    assert [payload, *(sql.dequeue()[1] for _ in range(3))] == ["first", "first", "second", "low"]


def test_a_queue_with_order_ready_puts_a_retry_behind(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", order="ready")
    for number in range(3):
        sql.enqueue(number)
    for delay in (None, 60):
        id, _ = sql.dequeue()
        if delay is None:
            sql.nak(id)
        else:
            sql("CALL test01.message_reschedule(%s, %s)", id, delay)
    sql.let_pass(61)
    assert [sql.dequeue()[1] for _ in range(4)] == [2, 0, 1, {}]


def test_a_message_at_its_deadline_is_handed_on(sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("test01", 1, deadline=600)
    assert sql.dequeue(lease=3_600)[0] == UUID(id)
    message = broker.get(id)
    assert message.lease_until == message.sent_at + 600_000
    sql("UPDATE rowq.rowq_messages SET sent_at = sent_at - 601000")
    sql.let_pass(601)
    assert sql.dequeue("client02")[1] == 1


def test_at_most_once_is_never_delivered_twice(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", delivery="at_most_once")
    sql.enqueue(1)
    id, _ = sql.dequeue()
    sql.let_pass(31)
    assert sql.dequeue() == (NOBODY, {})
    assert broker.get(str(id)).reason == "max_attempts_reached"
    late = broker.send("test01", 2, deadline=5)
    sql("UPDATE rowq.rowq_messages SET sent_at = sent_at - 6000")
    assert sql.dequeue() == (NOBODY, {})
    assert [dead.reason for dead in broker.browse("test01", state=rowq.State.DEAD)][-1] == "deadline_exceeded", late


def test_keys_of_the_undelivered_are_written(sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("test01", {"a": 1}, keys_if_undelivered=[["customers", 42], "lost"])
    sql.dequeue()
    sql.rej(UUID(id), reason="bad")
    assert [(entry.key, entry.value, entry.id) for entry in broker.keys(())] == [
        (["customers", 42], {"a": 1}, id),
        (["lost"], {"a": 1}, id),
    ]


def test_options_of_a_message_are_obeyed(sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("test01", 1, backoff=[60])
    sql.dequeue()
    sql.nak(UUID(id))
    assert broker.get(id).state == "scheduled"
    sql.let_pass(61)
    sql.dequeue()
    sql.nak(UUID(id), reason="twice")
    assert (broker.get(id).reason, broker.get(id).error) == ("max_attempts_reached", "twice")


def test_what_a_stream_holds_is_left_alone(url: str, sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1)
    with open_ledger(url) as ledger:
        held = ledger.claim("lake", ["test01"])
        assert ledger.take("lake", held.epoch, 0, 10) == 1
        (message,) = broker.browse("test01", state=rowq.State.LEASED)
        assert sql.dequeue() == (NOBODY, {})
        for call in ("message_ack(%s, 'stream:lake', 'mine')", "message_reschedule(%s)"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                sql(f"CALL test01.{call}", message.id)
        ledger.ack("lake", held.epoch, 1)
    assert broker.get(message.id).outcome == "acked"


def test_another_queue_is_another_queue(url: str, sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("elsewhere", 1)
    assert sql.dequeue() == (NOBODY, {})
    broker.receive("elsewhere", consumer="client01")
    for call, error in (
        ("message_ack(%s, 'client01', 'x')", psycopg.errors.ObjectNotInPrerequisiteState),
        ("message_reschedule(%s)", psycopg.errors.ObjectNotInPrerequisiteState),
        ("add_audit(%s, 1, 'me', 'x')", psycopg.errors.NoDataFound),
    ):
        with pytest.raises(error):
            sql(f"CALL test01.{call}", id)
    assert sql.audit() == []


@pytest.mark.parametrize("keep", ["none", "outcome", "body"])
def test_what_is_kept_is_what_the_queue_keeps(sql: Sql, broker: rowq.Broker, keep: Any) -> None:
    broker.configure("test01", keep=keep)
    own = uuid4()
    sql.enqueue({"n": 1}, message_id=own)
    sql.enqueue({"n": 2})
    for _ in range(2):
        sql.ack(sql.dequeue()[0])
    history = sql("SELECT message_json FROM test01.message_history ORDER BY created_on, history_on")
    assert history == {"none": [], "outcome": [(None,), (None,)], "body": [({"n": 1},), ({"n": 2},)]}[keep]
    ids = [row[0] for row in sql("SELECT DISTINCT message_id FROM test01.message_audit")]
    assert own in ids and len(ids) == 2 and None not in ids
    sql("CALL test01.add_audit(%s, 3, 'me', 'looked it up')", own)
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql.enqueue(1, message_id=own)


def test_without_an_audit_nothing_is_told(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", audit=False, keep="none")
    own = uuid4()
    sql.enqueue(1, message_id=own)
    sql.ack(sql.dequeue()[0])
    assert sql.audit() == []
    sql.enqueue(2, message_id=own)
    assert sql.dequeue() == (own, 2)


def test_a_queue_that_was_deleted_is_made_anew_as_it_was(sql: Sql, broker: rowq.Broker) -> None:
    broker.delete_queue("test01")
    sql.enqueue(1)
    assert broker.policy("test01").max_attempts == 8
    assert sql.dequeue()[1] == 1
