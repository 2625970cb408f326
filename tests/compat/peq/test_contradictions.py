"""Where the queues that rowq stands in for contradict each other, or themselves, and PEQ is one of them: what holds here.

The number is that of the contradiction in the list of them, which the tests of the other APIs go by too."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg
import pytest

import rowq
from tests.compat.peq.sql import NOBODY, Sql


def due_in(broker: rowq.Broker, id: UUID) -> float:
    """Seconds from being sent to being due."""
    message = broker.get(str(id))
    return ((message.due_at or message.sent_at) - message.sent_at) / 1000


def test_c05_max_retries_are_deliveries_less_one(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("max_retries", 2)
    assert broker.policy("test01").max_attempts == 3
    sql.enqueue(1)
    for _ in range(3):
        id, _ = sql.dequeue()
        sql.nak(id)
    assert sql.dequeue() == (NOBODY, {})
    assert broker.get(str(id)).attempts == 3


def test_c09_a_backoff_is_measured_from_the_nak_not_from_the_end_of_the_lease(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("backoff_base", 10)
    sql.set("backoff_jitter_min", 11)
    sql.set("backoff_jitter_max", 99)
    sql.stop_clock()
    for retry, least, most in ((1, 31, 119), (2, 51, 139), (3, 91, 179)):
        if retry == 1:
            sql.enqueue(1)
        id, _ = sql.dequeue(lease=3600)
        sql.nak(id)
        assert least <= due_in(broker, id) < most
        sql.let_pass(200)


def test_c09_without_a_configured_backoff_a_nak_waits_for_nothing(sql: Sql) -> None:
    sql.enqueue(1)
    for _ in range(3):
        id, _ = sql.dequeue()
        sql.nak(id)
    assert sql.dequeue()[0] == id


def test_c10_a_lease_that_ran_out_counts_and_ends_at_the_limit(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("max_retries", 1)
    sql.enqueue(1)
    for attempt in (1, 2):
        id, _ = sql.dequeue()
        assert broker.get(str(id)).attempts == attempt
        sql.let_pass(31)
    assert sql.dequeue() == (NOBODY, {})
    assert sql("SELECT message_id, message_state_id, reason_why FROM test01.dead_letter") == [(id, 88, "the lease expired")]


def test_c11_a_lease_that_ran_out_is_taken_over_at_once_whatever_the_backoff(sql: Sql) -> None:
    sql.set("backoff_base", 10)
    sql.enqueue(1)
    id, _ = sql.dequeue("client01")
    sql.let_pass(31)
    assert sql.dequeue("client02")[0] == id


def test_c11_unless_the_queue_says_otherwise(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("backoff_base", 10)
    broker.configure("test01", lease_expiry_backoff="nack")
    sql.enqueue(1)
    sql.dequeue("client01")
    sql.let_pass(31)
    assert sql.dequeue("client02") == (NOBODY, {})


def test_c12_dequeue_itself_takes_up_what_ran_out_and_needs_no_job(sql: Sql) -> None:
    sql.enqueue(1)
    sql.enqueue(2, delay_seconds=20)
    sql.dequeue()
    sql.let_pass(31)
    assert [sql.dequeue("client02")[1] for _ in range(3)] == [1, 2, {}]
    assert (5, "client01", "lease expired") in sql.audit()


@pytest.mark.parametrize(("given", "lease"), [(None, 45), (0, 45), (-1, 45), (1, 1), (9, 9), (600, 600)])
def test_c13_the_lease_is_the_calls_then_the_queues(sql: Sql, given: int | None, lease: int) -> None:
    sql.set("lease_duration", 45)
    sql.enqueue(1)
    sql.dequeue(lease=given)
    assert sql.audit()[-1][2] == f"dequeued. lease seconds: {lease}"


def test_c14_only_the_client_that_holds_a_message_settles_it(sql: Sql) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue("client01")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        sql.ack(id, "client02")
    sql.ack(id, "client01")


def test_c15_a_late_ack_is_an_exception(sql: Sql) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue()
    sql.ack(id)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        sql.ack(id)


def test_c16_a_dead_letter_is_the_same_on_both_sides(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue("bad")
    id, _ = sql.dequeue()
    sql.rej(id)
    (delivery,) = broker.receive("test01.dlq")
    assert (delivery.id, delivery.payload) == (str(id), "bad")
    broker.nack(delivery)


def test_c20_a_dead_letter_comes_back_with_its_id_and_leaves_no_copy(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue("again")
    id, _ = sql.dequeue()
    sql.rej(id)
    assert broker.redrive("test01") == 1
    assert sql("SELECT COUNT(*) FROM test01.dead_letter") == [(0,)]
    assert sql.audit()[-1][0] == 72
    assert sql.dequeue() == (id, "again")


def test_c22_times_are_the_databases_not_the_clients(sql: Sql, broker: rowq.Broker) -> None:
    sql("SET TIME ZONE 'America/St_Johns'")
    sql.enqueue(1)
    ((_, expires, _),) = sql("SELECT * FROM test01.dequeue('client01')")
    (message,) = broker.browse("test01", state=rowq.State.LEASED)
    assert round(expires.timestamp() * 1000) == message.lease_until


def test_c23_a_negative_delay_is_none(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1, delay_seconds=-60)
    id, payload = sql.dequeue()
    assert (payload, due_in(broker, id)) == (1, 0)


def test_c23b_dead_letters_have_a_life_of_their_own(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("dead_letter_retention", 91)
    sql.set("item_ttl", 1)
    assert broker.policy("test01").dlq_ttl_ms == 91 * 86_400_000
    sql.enqueue(1)
    sql.let_pass(61)
    assert sql.dequeue() == (NOBODY, {})
    sql("UPDATE rowq.rowq_dead SET died_at = died_at - 90 * 86400000::BIGINT")
    broker.maintain()
    assert sql("SELECT COUNT(*) FROM test01.dead_letter") == [(1,)]
    sql("UPDATE rowq.rowq_dead SET died_at = died_at - 2 * 86400000::BIGINT")
    broker.maintain()
    assert sql("SELECT COUNT(*) FROM test01.dead_letter") == [(0,)]


def test_c24_a_life_begins_when_a_message_may_be_dequeued_and_ends_in_the_dead_letters(sql: Sql) -> None:
    sql.set("item_ttl", 1)
    sql.enqueue(1, delay_seconds=60)
    sql.let_pass(100)
    assert sql.dequeue("late")[1] == 1
    sql.enqueue(2)
    sql.let_pass(61)
    assert sql.dequeue("later")[1] == {}
    assert (6, "later", "expired") in sql.audit()
    assert ("message_expired",) in sql("SELECT reason_why FROM test01.dead_letter WHERE message_state_id = 6")


def test_c25_an_expired_message_is_never_delivered(sql: Sql) -> None:
    sql.set("item_ttl", 1)
    for number in range(5):
        sql.enqueue(number)
    sql.let_pass(61)
    sql.set("item_ttl", 0)
    sql.enqueue("fresh")
    assert [sql.dequeue()[1] for _ in range(2)] == ["fresh", {}]
    assert sql("SELECT COUNT(*) FROM test01.dead_letter") == [(5,)]


def test_c25_a_call_ends_also_where_very_many_have_expired(sql: Sql, broker: rowq.Broker) -> None:
    broker.send_many("test01", range(1_500), ttl=1)
    sql.enqueue("fresh")
    sql.let_pass(2)
    assert [sql.dequeue()[1] for _ in range(2)] == [{}, "fresh"]


def test_c26_in_flight_a_message_does_not_expire(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("item_ttl", 1)
    sql.enqueue(1)
    id, _ = sql.dequeue(lease=600)
    sql.let_pass(120)
    broker.maintain()
    sql.ack(id)


def test_c27_ids_are_the_callers_or_the_engines(sql: Sql, broker: rowq.Broker) -> None:
    own = uuid4()
    sql.enqueue(1, message_id=own)
    sql.enqueue(2)
    ids = [sql.dequeue()[0] for _ in range(2)]
    assert ids[0] == own
    assert ids[1].version == 7
    assert [broker.get(str(id)).payload for id in ids] == [1, 2]


def test_c31_nothing_is_a_row_of_zeros_and_leaves_no_line_in_the_audit(sql: Sql) -> None:
    assert sql("SELECT * FROM test01.dequeue('client01')") == [(NOBODY, None, {})]
    assert sql.audit() == []


def test_c33_an_error_is_an_exception_with_a_sentence_a_hint_and_a_code(sql: Sql) -> None:
    with pytest.raises(psycopg.Error) as caught:
        sql.ack(uuid4())
    told = caught.value.diag
    assert told.sqlstate == "55000"
    assert told.message_primary and told.message_hint


def test_c34_what_is_acked_is_history_for_as_long_as_it_is_kept(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue({"n": 1}, created_by="billing")
    sql.ack(sql.dequeue()[0], reason="all done")
    assert sql("SELECT created_by, message_json, reason_why FROM test01.message_history") == [("billing", {"n": 1}, "all done")]
    sql.set("history_retention", 1)
    sql("UPDATE rowq.rowq_history SET finished_at = finished_at - 2 * 86400000::BIGINT")
    broker.maintain()
    assert sql("SELECT COUNT(*) FROM test01.message_history") == [(0,)]


def test_c36_a_reschedule_asks_for_no_owner_begins_anew_and_moves_the_expiry(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("item_ttl", 60)
    own = uuid4()
    sql.enqueue(1, message_id=own)
    before = broker.get(str(own))
    for _ in range(3):
        sql.dequeue("somebody")
        sql.nak(own, "somebody")
    sql.dequeue("somebody")
    sql("CALL test01.message_reschedule(%s, 600)", own)
    after = broker.get(str(own))
    assert (after.state, after.attempts, after.consumer) == ("scheduled", 0, None)
    assert after.expires_at == (before.expires_at or 0) + 600_000
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        sql.ack(own, "somebody")
    sql.let_pass(601)
    assert sql.dequeue()[0] == own


@pytest.mark.parametrize("state", ["ready", "scheduled", "leased"])
def test_c36_a_reschedule_finds_a_message_wherever_it_is_in_the_queue(sql: Sql, broker: rowq.Broker, state: str) -> None:
    own = uuid4()
    sql.stop_clock()
    sql.enqueue(1, message_id=own, delay_seconds=60 if state == "scheduled" else 0)
    if state == "leased":
        sql.dequeue()
    sql("CALL test01.message_reschedule(%s, 0)", own)
    assert due_in(broker, own) == 3600
    sql("CALL test01.message_reschedule(%s, -1)", own)
    assert sql.dequeue()[0] == own


def test_c36_a_negative_reschedule_does_not_shorten_a_life(sql: Sql, broker: rowq.Broker) -> None:
    sql.set("item_ttl", 60)
    own = uuid4()
    sql.enqueue(1, message_id=own)
    before = broker.get(str(own)).expires_at
    sql("CALL test01.message_reschedule(%s, -3000)", own)
    assert broker.get(str(own)).expires_at == before


def test_c43_a_retry_goes_back_to_its_old_place(sql: Sql) -> None:
    sql.enqueue("first")
    sql.enqueue("second")
    id, _ = sql.dequeue()
    sql.nak(id)
    assert sql.dequeue()[1] == "first"


def test_c44_a_payload_is_json_here_and_bytes_are_written_in_it(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue({"n": 1})
    broker.send("test01", b"\x00\xff")
    assert [sql.dequeue()[1] for _ in range(2)] == [{"n": 1}, {"payload_base64": "AP8="}]


def test_c46_a_call_that_fails_leaves_nothing_behind_and_tells_its_caller(sql: Sql) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue()
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        sql.ack(id, "thief")
    assert [line[0] for line in sql.audit()] == [1, 2]


def test_c49_the_ttl_wins_over_the_retries(sql: Sql) -> None:
    sql.set("item_ttl", 1)
    sql.enqueue(1)
    id, _ = sql.dequeue()
    sql.let_pass(61)
    assert sql.dequeue() == (NOBODY, {})
    assert sql("SELECT message_id FROM test01.dead_letter WHERE message_state_id = 6") == [(id,)]
