"""Every example that PEQ's users are given, word for word; only ids and times are other ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

import rowq
from tests.compat.peq.sql import NOBODY, Sql

ID = UUID("0303596d-ed09-4b82-9cbd-6d36c41eeb6d")

UNIT_OF_WORK = """
DO $$
DECLARE
    msg_id uuid DEFAULT uuid_generate_v4();
    expires TIMESTAMP;
    msg_json json = '{{}}';
    client_id varchar = 'client01';
    lease_duration integer = 30;
    reason_why text = 'E42: the printer is on fire';
BEGIN
    select q.msg_id, q.expires, q.msg_json
    into msg_id, expires, msg_json
    from test01.dequeue(client_id, lease_duration) as q;
    INSERT INTO seen VALUES (msg_id, expires, msg_json);
    {outcome}
END $$
"""


@pytest.fixture
def seen(sql: Sql) -> Sql:
    sql("CREATE TEMPORARY TABLE seen (msg_id UUID, expires TIMESTAMP, msg_json JSON)")
    return sql


@pytest.mark.parametrize(
    ("arguments", "id", "delay", "by"),
    [
        ("""'{"n": 1}'""", None, 0, "system"),
        (f"""'{{"n": 1}}', '{ID}'""", ID, 0, "system"),
        (f"""'{{"n": 1}}', '{ID}', 60""", ID, 60, "system"),
        (f"""'{{"n": 1}}', '{ID}', 60, 'billing'""", ID, 60, "billing"),
        ("""'{"n": 1}', uuid_generate_v4(), 0, 'billing'""", None, 0, "billing"),
    ],
)
def test_enqueue(sql: Sql, broker: rowq.Broker, arguments: str, id: UUID | None, delay: int, by: str) -> None:
    sql(f"call test01.enqueue({arguments});")
    assert sql.audit() == [(1, by, "enqueued")]
    state = "scheduled" if delay else "ready"
    (message,) = broker.browse("test01", state=rowq.State(state))
    assert message.payload == {"n": 1}
    assert (message.due_at or message.sent_at) == message.sent_at + delay * 1000
    assert id is None or message.id == str(id)
    assert UUID(message.id)


def test_enqueue_by_the_names_of_its_fields(sql: Sql, broker: rowq.Broker) -> None:
    sql(f"call test01.enqueue(created_by => 'me', delay_seconds => 0, message_id => '{ID}', message_json => '[1]')")
    assert broker.get(str(ID)).payload == [1]


def test_dequeue(seen: Sql) -> None:
    seen(f"""call test01.enqueue('{{"n": 1}}', '{ID}')""")
    now = datetime.fromtimestamp(seen.stop_clock() / 1000, UTC)
    seen(UNIT_OF_WORK.format(outcome=""))
    ((id, expires, payload),) = seen("SELECT * FROM seen")
    assert (id, payload) == (ID, {"n": 1})
    assert expires.replace(tzinfo=UTC) - now == timedelta(seconds=30)


def test_ack(seen: Sql) -> None:
    seen(f"""call test01.enqueue('{{"n": 1}}', '{ID}')""")
    seen(UNIT_OF_WORK.format(outcome="call test01.message_ack(msg_id, client_id, 'ack');"))
    assert seen("SELECT message_id, message_state_id, message_json, reason_why FROM test01.message_history") == [(ID, 3, {"n": 1}, "ack")]
    assert seen.dequeue() == (NOBODY, {})


def test_nak(seen: Sql) -> None:
    seen(f"call test01.enqueue('{{}}', '{ID}')")
    seen(UNIT_OF_WORK.format(outcome="call test01.message_nak(msg_id, client_id, reason_why);"))
    assert seen.audit()[-1] == (1, "client01", "E42: the printer is on fire")
    assert seen.dequeue("client02") == (ID, {})


def test_rej(seen: Sql) -> None:
    seen(f"""call test01.enqueue('{{"n": 1}}', '{ID}')""")
    seen(UNIT_OF_WORK.format(outcome="call test01.message_rej(msg_id, client_id, reason_why);"))
    row = (ID, 7, {"n": 1}, "E42: the printer is on fire")
    assert seen("SELECT message_id, message_state_id, message_json, reason_why FROM test01.dead_letter") == [row]
    assert seen.audit()[-1] == (7, "client01", "E42: the printer is on fire")
    assert seen.dequeue() == (NOBODY, {})


@pytest.mark.parametrize(
    ("arguments", "delay", "by", "why"),
    [
        ("msg_id", 3600, "system", "rescheduled"),
        ("msg_id, 0", 3600, "system", "rescheduled"),
        ("msg_id, 60", 60, "system", "rescheduled"),
        ("msg_id, -60", 0, "system", "rescheduled"),
        ("msg_id, 60, client_id", 60, "client01", "rescheduled"),
        ("msg_id, 60, client_id, reason_why", 60, "client01", "E42: the printer is on fire"),
    ],
)
def test_reschedule(seen: Sql, broker: rowq.Broker, arguments: str, delay: int, by: str, why: str) -> None:
    seen.stop_clock()
    seen(f"call test01.enqueue('{{}}', '{ID}')")
    seen(UNIT_OF_WORK.format(outcome=f"call test01.message_reschedule({arguments});"))
    assert seen.audit()[-1] == (4, by, why)
    message = broker.get(str(ID))
    assert message.attempts == 0
    if delay:
        assert message.state == "scheduled"
        assert (message.due_at or 0) - message.sent_at == delay * 1000
    else:
        assert message.state == "ready"


def test_add_audit_is_called_by_the_names_that_are_printed(sql: Sql) -> None:
    names = "IN msg_id uuid, IN state_id integer, IN audit_by character varying, IN reason_why text"
    assert sql("SELECT pg_get_function_identity_arguments('test01.add_audit'::REGPROC)") == [(names,)]
    sql(f"call test01.enqueue('{{}}', '{ID}')")
    sql(f"call test01.add_audit('{ID}', 5, 'client01', 'R7: looked at by hand')")
    assert sql.audit()[-1] == (5, "client01", "R7: looked at by hand")


def test_the_audit_of_a_message_reads_as_it_is_printed(sql: Sql) -> None:
    sql("call test01.enqueue('{}')")
    sql(f"call test01.enqueue('{{}}', '{ID}')")
    other = sql.dequeue("client01")[0]
    assert sql.dequeue("client01")[0] == ID
    sql.ack(other)
    sql.ack(ID)
    cursor = sql.connection.execute(
        """
        -- Find out what happened to a message whose id start with...
        SELECT * FROM test01.message_audit
          WHERE cast(message_id as varchar) like '0303%'
          ORDER BY message_id, audit_on ASC LIMIT 100
        """
    )
    assert [column.name for column in cursor.description or ()] == [
        *("audit_id", "message_id", "message_state_id", "audit_on", "audit_by", "reason_why"),
    ]
    rows = cursor.fetchall()
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert all(isinstance(row[3], datetime) and row[3].tzinfo is not None for row in rows)
    assert [(*row[1:3], *row[4:]) for row in rows] == [
        (ID, 1, "system", "enqueued"),
        (ID, 2, "client01", "dequeued. lease seconds: 30"),
        (ID, 3, "client01", "ack"),
    ]


def test_the_lease_comes_from_the_configuration_if_none_is_given(sql: Sql) -> None:
    now = datetime.fromtimestamp(sql.stop_clock() / 1000, UTC)
    for lease, audited in ((None, 30), (45, 45)):
        if lease:
            sql("UPDATE test01.queue_configuration SET setting_value = '45' WHERE setting_name = 'lease_duration'")
        sql("call test01.enqueue('{}')")
        ((id, expires, _),) = sql("select * from test01.dequeue('client01')")
        assert expires - now == timedelta(seconds=audited)
        assert sql.audit()[-1] == (2, "client01", f"dequeued. lease seconds: {audited}")
        sql.ack(id)
    sql("DELETE FROM test01.queue_configuration WHERE setting_name = 'lease_duration'")
    assert sql("SELECT setting_value FROM test01.queue_configuration WHERE setting_name = 'lease_duration'") == [("30",)]


def test_retries_are_seven_and_then_it_is_a_dead_letter(sql: Sql) -> None:
    sql(f"call test01.enqueue('{{}}', '{ID}')")
    for _ in range(8):
        assert sql.dequeue()[0] == ID
        sql.nak(ID, reason="not today")
    assert sql.dequeue() == (NOBODY, {})
    assert sql("SELECT message_id, message_state_id, reason_why FROM test01.dead_letter") == [(ID, 88, "not today")]
    assert sql.audit()[-2:] == [(1, "client01", "not today"), (88, "client01", "max_attempts_reached: not today")]


@pytest.mark.parametrize("verb", ["message_ack", "message_nak", "message_rej"])
def test_after_it_expires_a_client_does_not_own_the_message_any_more(sql: Sql, verb: str) -> None:
    sql(f"call test01.enqueue('{{}}', '{ID}')")
    sql.dequeue("client01")
    for late, client in ((False, "client02"), (True, "client01")):
        if late:
            sql.let_pass(31)
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is not with the client"):
            sql(f"call test01.{verb}(%s, %s, 'because')", ID, client)
    assert sql.dequeue("client02")[0] == ID


def test_states_have_the_numbers_that_are_printed(sql: Sql) -> None:
    rows = sql("SELECT message_state_id, state_title FROM test01.message_state ORDER BY message_state_id LIMIT 3")
    assert rows == [(1, "queued"), (2, "leased"), (3, "history")]
