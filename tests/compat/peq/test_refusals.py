"""What PEQ's procedures refuse: with a sentence, what to do, a standard code, and nothing changed."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors

import rowq
from tests.compat.peq.sql import NOBODY, Sql

DEEP = 201
"""Levels that the engine takes: a list in a list, and so on."""


def refused(sql: Sql, error: type[psycopg.Error], statement: str, *values: Any) -> str:
    """The sentence; whoever refuses also says what to do."""
    with pytest.raises(error) as caught:
        sql(statement, *values)
    assert caught.value.diag.message_hint
    return str(caught.value.diag.message_primary)


def test_dequeue_leaves_keys_and_groups_to_the_engine(sql: Sql, broker: rowq.Broker) -> None:
    broker.send("test01", "keyed", key="k")
    broker.send("test01", "grouped", group="g")
    broker.send("test01", "behind", group="g")
    broker.send("test01", "later", key="later", delay=60)
    sql.enqueue("plain")
    sql.let_pass(61)
    assert sql.dequeue()[1] == "plain"
    assert sql.dequeue() == (NOBODY, {})
    assert broker.stats("test01").ready == 3
    deliveries = broker.receive("test01", max=10, lease=5)
    sql.let_pass(6)
    assert sql.dequeue() == (NOBODY, {})
    assert broker.stats("test01").leased == len(deliveries) + 1


@pytest.mark.parametrize("option", [{"key": "k"}, {"group": "g"}])
def test_keys_and_groups_are_settled_by_receipt(sql: Sql, broker: rowq.Broker, option: Any) -> None:
    id = broker.send("test01", 1, **option)
    (delivery,) = broker.receive("test01", consumer="client01")
    for call in ("message_ack(%s, 'client01', 'x')", "message_nak(%s, 'client01', 'x')", "message_reschedule(%s)"):
        assert "has a key or a group" in refused(sql, errors.FeatureNotSupported, f"CALL test01.{call}", id)
    broker.ack(delivery)


def test_a_queue_may_ask_for_receipts(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", require_receipt=True)
    sql.enqueue(1)
    id, _ = sql.dequeue()
    assert "receipt alone" in refused(sql, errors.FeatureNotSupported, "CALL test01.message_ack(%s, 'client01', 'x')", id)


@pytest.mark.parametrize("id", [uuid4(), UUID("01a1e182-c0d6-7000-8000-000000000001"), NOBODY])
def test_a_message_that_is_not_there(sql: Sql, id: UUID) -> None:
    sql.enqueue(1)
    for verb in ("ack", "nak", "rej"):
        refused(sql, errors.ObjectNotInPrerequisiteState, f"CALL test01.message_{verb}(%s, 'client01', 'x')", id)
    refused(sql, errors.ObjectNotInPrerequisiteState, "CALL test01.message_reschedule(%s)", id)
    refused(sql, errors.NoDataFound, "CALL test01.add_audit(%s, 1, 'me', 'x')", id)
    assert len(sql.audit()) == 1


@pytest.mark.parametrize("verb", ["ack", "rej"])
def test_a_message_that_is_done_stays_done(sql: Sql, verb: str) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue()
    sql(f"CALL test01.message_{verb}(%s, 'client01', 'x')", id)
    for again in ("ack", "nak", "rej"):
        refused(sql, errors.ObjectNotInPrerequisiteState, f"CALL test01.message_{again}(%s, 'client01', 'x')", id)
    refused(sql, errors.ObjectNotInPrerequisiteState, "CALL test01.message_reschedule(%s)", id)


def test_a_dead_letter_that_somebody_has_received_is_the_engines(sql: Sql, broker: rowq.Broker) -> None:
    sql.enqueue(1)
    id, _ = sql.dequeue()
    sql.rej(id)
    (delivery,) = broker.receive("test01.dlq", consumer="client01", lease=5)
    refused(sql, errors.ObjectNotInPrerequisiteState, "CALL test01.message_ack(%s, 'client01', 'x')", id)
    refused(sql, errors.ObjectNotInPrerequisiteState, "CALL test01.message_reschedule(%s)", id)
    sql.let_pass(6)
    assert sql.dequeue() == (NOBODY, {})
    broker.ack(delivery)


@pytest.mark.parametrize("client", ["", None])
def test_a_client_without_a_name(sql: Sql, client: str | None) -> None:
    refused(sql, errors.InvalidParameterValue, "SELECT * FROM test01.dequeue(%s)", client)


def test_who_has_no_name_settles_nothing_of_those_who_have_none(sql: Sql, broker: rowq.Broker) -> None:
    id = broker.send("test01", 1)
    (delivery,) = broker.receive("test01")
    for verb in ("ack", "nak", "rej"):
        refused(sql, errors.ObjectNotInPrerequisiteState, f"CALL test01.message_{verb}(%s, NULL, 'x')", id)
    broker.ack(delivery)


def test_an_id_is_sent_once(sql: Sql, broker: rowq.Broker) -> None:
    own = uuid4()
    sql.enqueue(1, message_id=own)
    native = broker.send("test01", 2)
    for id in (own, native):
        assert "was sent already" in refused(sql, errors.UniqueViolation, "CALL test01.enqueue('{}', %s)", id)
    with pytest.raises(rowq.IdTaken):
        broker.send("test01", 1, id=str(own))
    elsewhere = broker.send("elsewhere", 3, id=str(uuid4()))
    sql.enqueue(3, message_id=UUID(elsewhere))
    assert broker.stats("test01").ready == 3


def test_times_that_are_too_long(sql: Sql) -> None:
    year = 367 * 86_400
    refused(sql, errors.InvalidParameterValue, "CALL test01.enqueue('{}', NULL, %s)", year)
    refused(sql, errors.InvalidParameterValue, "SELECT * FROM test01.dequeue('a', %s)", year)
    sql.enqueue(1)
    id, _ = sql.dequeue()
    refused(sql, errors.InvalidParameterValue, "CALL test01.message_reschedule(%s, %s)", id, year)
    sql.ack(id)


def test_a_payload_that_is_too_large(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", max_payload_bytes=10)
    sql.enqueue("12345678")
    assert "takes 11 bytes" in refused(sql, errors.ProgramLimitExceeded, """CALL test01.enqueue('"123456789"')""")
    refused(sql, errors.ProgramLimitExceeded, """CALL test01.enqueue('"äöüäöü"')""")


@pytest.mark.parametrize(
    "payload",
    [
        r'"\ud800"',
        r'["a\uDFFF"]',
        '{"a": [1e999]}',
        "-1e400",
        "1" + "0" * 320 + ".5",
        "1" + "0" * 248 + "e99",
        "[" * (DEEP + 1) + "]" * (DEEP + 1),
    ],
    ids=lambda payload: payload[:12],
)
def test_a_payload_that_not_everybody_could_read(sql: Sql, payload: str) -> None:
    assert "could read" in refused(sql, errors.InvalidParameterValue, "CALL test01.enqueue(%s)", payload)


@pytest.mark.parametrize(
    "payload",
    [
        r'"\ud83d\ude00 \u0000"',
        "1e308",
        "1e-999",
        '"1e999"',
        "1" + "0" * 200 + "e99",
        "[" * DEEP + "]" * DEEP,
        '"' + "[" * 500 + '"',
        '["' + "9" * 300 + '"]',
    ],
    ids=lambda payload: payload[:12],
)
def test_a_payload_that_only_looks_so(sql: Sql, broker: rowq.Broker, payload: str) -> None:
    sql("CALL test01.enqueue(%s)", payload)
    assert len(broker.receive("test01")) == 1


def test_what_is_no_json_and_nothing_at_all(sql: Sql) -> None:
    with pytest.raises(errors.InvalidTextRepresentation):
        sql("CALL test01.enqueue('{')")
    refused(sql, errors.NullValueNotAllowed, "CALL test01.enqueue(NULL)")


def test_a_schema_is_not_checked_in_sql(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", schema={"type": "object"})
    assert "JSON schema" in refused(sql, errors.FeatureNotSupported, "CALL test01.enqueue('{}')")


def test_a_full_queue(sql: Sql, broker: rowq.Broker) -> None:
    broker.configure("test01", max_depth=3)
    sql.enqueue(1)
    sql.enqueue(2)
    sql.enqueue(3, delay_seconds=60)
    sql.dequeue()
    assert "holds 3 of at most 3" in refused(sql, errors.ConfigurationLimitExceeded, "CALL test01.enqueue('4')")


@pytest.mark.parametrize("state", [0, 8, None])
def test_a_state_that_is_none(sql: Sql, state: int | None) -> None:
    own = uuid4()
    sql.enqueue(1, message_id=own)
    refused(sql, errors.InvalidParameterValue, "CALL test01.add_audit(%s, %s, 'me', 'x')", own, state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_duration", "0"),
        ("lease_duration", "soon"),
        ("max_retries", "-2"),
        ("item_ttl", "-1"),
        ("history_retention", "367"),
        ("backoff_factor", "0.5"),
        ("backoff_base", "-1"),
        ("backoff_jitter_max", "1e12"),
        ("cron_unlock", "1"),
        ("lease_duration", "NaN"),
        ("lease_duration", "Infinity"),
    ],
)
def test_a_setting_that_is_not_possible(sql: Sql, name: str, value: str) -> None:
    before = sql("SELECT * FROM test01.queue_configuration")
    insert = "INSERT INTO test01.queue_configuration (setting_name, setting_value) VALUES (%s, %s)"
    assert name in refused(sql, errors.InvalidParameterValue, insert, name, value)
    assert sql("SELECT * FROM test01.queue_configuration") == before


@pytest.mark.parametrize("text", ["'; DROP TABLE rowq.rowq_messages; --", '"quoted"', "%s {door} $1 \\", "ü\n"])
def test_text_of_clients_is_only_text(sql: Sql, broker: rowq.Broker, text: str) -> None:
    sql.enqueue(text, created_by=text)
    id, payload = sql.dequeue(text)
    assert payload == text
    sql.nak(id, text, text)
    sql.dequeue(text)
    sql("CALL test01.message_reschedule(%s, -1, %s, %s)", id, text, text)
    sql("CALL test01.add_audit(%s, 1, %s, %s)", id, text, text)
    assert [line[1:] for line in sql.audit()] == [
        *((text, "enqueued"), (text, "dequeued. lease seconds: 30"), (text, text)),
        *((text, "dequeued. lease seconds: 30"), (text, text), (text, text)),
    ]
