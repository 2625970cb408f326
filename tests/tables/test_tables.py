"""Every table as Arrow: each state, each type, exactly."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rowq
from rowq import Broker, Draft
from rowq.ids import message_id
from rowq.spark.tables import KINDS, SCHEMAS, Piece, Tabular, open_tabular
from rowq.store.dialect import Dialect
from tests.support.database import Database, run
from tests.tables.reading import rows_of, said

MOMENT = pa.timestamp("us", tz="UTC")


def at(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_an_empty_table_has_no_bounds(tabular: Tabular) -> None:
    assert [tabular.bounds(kind, queues=None) for kind in KINDS] == [None] * 4


def test_an_empty_range_gives_nothing(broker: Broker, tabular: Tabular) -> None:
    broker.send("q", 1)
    assert all(list(tabular.read(Piece(kind, 1_000, 2_000), queues=None)) == [] for kind in KINDS)


def test_every_state_is_read_with_all_that_is_known_of_it(broker: Broker, tabular: Tabular) -> None:
    broker.configure("kept", keep="body")
    broker.configure("outcomes", keep="outcome")
    broker.configure("again", order="ready")
    ready = broker.send("q", {"a": "ä€𝄞"}, priority=-7, ttl=3600, headers={"trace": "é"})
    moved = broker.send("again", 1)
    broker.nack(broker.receive("again")[0], delay=0, reason="not now")
    scheduled = broker.send("q", [1], delay=60, key="k", id="my-own:id", max_attempts=3, backoff=[1, 2])
    head = broker.send("groups", 1, group="g")
    blocked = broker.send("groups", 2, group="g", deadline=60)
    leased = broker.receive("groups", consumer="me")[0]
    dead = broker.send("bad", b"\x00\xff\xfe", keys_if_undelivered=["lost", ["a", 1]])
    broker.reject(broker.receive("bad")[0], reason="no")
    kept = broker.send("kept", "body")
    broker.ack(broker.receive("kept", consumer="you")[0])
    outcome = broker.send("outcomes", "gone")
    broker.ack(broker.receive("outcomes")[0])

    rows = by_id(rows_of(tabular, "messages"))

    states = {ready: "ready", moved: "ready", scheduled: "scheduled", blocked: "blocked", dead: "dead"}
    assert {id: row["state"] for id, row in rows.items()} == states | {head: "leased", kept: "finished", outcome: "finished"}
    first = broker.get(ready)
    assert said(rows[ready]) == {
        "id": ready,
        "queue": "q",
        "state": "ready",
        "seq": rows[ready]["seq"],
        "payload": '{"a":"ä€𝄞"}'.encode(),
        "payload_text": '{"a":"ä€𝄞"}',
        "format": "json",
        "headers": '{"trace":"é"}',
        "priority": -7,
        "attempts": 0,
        "sent_at": at(first.sent_at),
        "expires_at": at(first.sent_at + 3_600_000),
        "ttl_ms": 3_600_000,
    }
    assert (rows[moved]["attempts"], rows[moved]["error"]) == (1, "not now")
    assert rows[scheduled]["due_at"] == at(broker.get(scheduled).sent_at + 60_000)
    assert (rows[scheduled]["key"], rows[scheduled]["max_attempts"]) == ("k", 3)
    assert json.loads(rows[scheduled]["backoff"])["delays_ms"] == [1000, 2000]
    assert (rows[head]["consumer"], rows[head]["lease_until"]) == ("me", at(leased.lease_until))
    assert rows[blocked]["deadline"] == at(broker.get(blocked).sent_at + 60_000)
    assert said(rows[dead]).keys() >= {"reason", "died_at", "redeliveries", "error"}
    assert (rows[dead]["payload"], rows[dead]["payload_text"], rows[dead]["format"]) == (b"\x00\xff\xfe", None, "bytes")
    assert json.loads(rows[dead]["keys_if_undelivered"]) == [["lost"], ["a", 1]]
    assert (rows[kept]["outcome"], rows[kept]["payload_text"], rows[kept]["consumer"]) == ("acked", '"body"', "you")
    assert (rows[outcome]["outcome"], rows[outcome]["payload"], rows[outcome]["format"]) == ("acked", None, None)


def test_dead_letters_have_their_reason_and_are_told_while_somebody_looks_at_them(broker: Broker, tabular: Tabular) -> None:
    ids = broker.send_many("q", [1, 2])
    broker.reject_many(broker.receive("q", max=2), reason="no")
    taken = broker.receive("q.dlq", consumer="doctor")[0]
    rows = by_id(rows_of(tabular, "dead"))
    assert rows.keys() == set(ids)
    assert rows[taken.id]["state"] == "leased" and rows[taken.id]["consumer"] == "doctor"
    other = next(id for id in ids if id != taken.id)
    assert rows[other]["state"] == "dead"
    assert {row["reason"] for row in rows.values()} == {"rejected"}
    assert {row["error"] for row in rows.values()} == {"no"}


def test_history_has_lines_in_order(broker: Broker, tabular: Tabular) -> None:
    broker.configure("q", keep="body")
    ids = broker.send_many("q", [{"n": n} for n in range(25)])
    broker.ack_many(broker.receive("q", max=25, consumer="me"))
    rows = rows_of(tabular, "history")
    assert [row["line"] for row in rows] == sorted(row["line"] for row in rows)
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert {(row["outcome"], row["consumer"], row["queue"], row["attempts"]) for row in rows} == {("acked", "me", "q", 1)}
    assert {row["payload_text"] for row in rows} == {f'{{"n":{n}}}' for n in range(25)}
    assert all(row["sent_at"] <= row["leased_at"] <= row["finished_at"] for row in rows)


def test_the_audit_has_every_event(broker: Broker, tabular: Tabular) -> None:
    broker.send("q", 1)
    broker.reject(broker.receive("q", consumer="me")[0], reason="ü")
    broker.pause("q")
    rows = rows_of(tabular, "audit")
    assert [row["event"] for row in rows] == ["enqueued", "delivered", "rejected", "dead", "paused"]
    assert [row["seq"] is None for row in rows] == [False] * 4 + [True]
    assert (rows[1]["actor"], rows[1]["attempt"], rows[2]["detail"]) == ("me", 1, "ü")


def test_a_large_payload_comes_whole(broker: Broker, tabular: Tabular) -> None:
    broker.configure("q", max_payload_bytes=4 << 20)
    payloads = {bytes([n]) * (1 << 20) for n in range(5)}
    broker.send_many("q", [*payloads, "x" * (1 << 20)])
    rows = rows_of(tabular, "messages", parts=1)
    assert {row["payload"] for row in rows if row["format"] == "bytes"} == payloads
    assert [row["payload_text"] for row in rows if row["format"] == "json"] == [f'"{"x" * (1 << 20)}"']


def test_columns_that_are_null_in_some_rows_only_keep_their_types(broker: Broker, tabular: Tabular) -> None:
    """More rows than a batch holds, and the first value of a column behind them."""
    broker.send_many("q", [Draft(n) for n in range(10_050)])
    broker.send("q", 0, key="late", headers={"a": "b"}, ttl=5)
    rows = rows_of(tabular, "messages", parts=1)
    assert len(rows) == 10_051
    assert [row["key"] for row in rows if row["key"] is not None] == ["late"]


def test_ids_are_those_of_the_broker_however_large_the_seq(broker: Broker, tabular: Tabular, database: Database) -> None:
    """An id has room for 62 bits of seq."""
    broker.configure("q", keep="body")
    broker.send("q", 1)
    large = (1 << 61) + 5
    with_connection = database.connection()
    for table in ("messages", "ready"):
        prefix = "rowq." if "postgresql" in database.url else ""
        run(with_connection, f"UPDATE {prefix}rowq_{table} SET seq = {large}{', position = ' + str(large) if table == 'ready' else ''}")
    with_connection.commit()
    with_connection.close()
    (row,) = rows_of(tabular, "messages")
    assert row["seq"] == large
    assert row["id"] == message_id(large, round(row["sent_at"].timestamp() * 1000))


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
def test_pieces_cover_everything_once(broker: Broker, tabular: Tabular, parts: int) -> None:
    ids = broker.send_many("q", range(50))
    assert sorted(row["id"] for row in rows_of(tabular, "messages", parts=parts)) == sorted(ids)


def test_pieces_are_even_and_no_larger_than_they_may_be() -> None:
    tabular = open_tabular("sqlite:////nowhere/at/all.db")
    pieces = tabular.pieces("audit", (11, 110), 3, 20)
    assert (pieces[0].first, pieces[-1].last, len(pieces)) == (11, 110, 5)
    assert {piece.last - piece.first + 1 for piece in pieces} == {20}
    assert pickle.loads(pickle.dumps(pieces)) == pieces  # noqa: S301  # ours
    assert len(tabular.pieces("audit", (5, 6), 8, None)) == 2


def test_only_the_queues_that_are_asked_for_are_read(broker: Broker, tabular: Tabular) -> None:
    for queue in ("a", "b", "c"):
        broker.configure(queue, keep="outcome")
        broker.send_many(queue, [1, 2, 3])
        broker.ack(broker.receive(queue)[0])
        broker.reject(broker.receive(queue)[0])
    for kind in KINDS:
        assert {row["queue"] for row in rows_of(tabular, kind, queues=["a", "c"])} == {"a", "c"}, kind
        assert {row["queue"] for row in rows_of(tabular, kind)} == {"a", "b", "c"}, kind
        assert rows_of(tabular, kind, queues=[]) == [], kind


def test_columns_are_given_in_the_order_that_is_asked_for(broker: Broker, tabular: Tabular) -> None:
    broker.send("q", 1)
    (row,) = rows_of(tabular, "messages", columns=["state", "payload_text", "id"])
    assert list(row) == ["state", "payload_text", "id"]
    assert row["payload_text"] == "1"
    (row,) = rows_of(tabular, "messages", columns=["seq"])
    assert list(row) == ["seq"]


def test_states_and_predicates_choose(broker: Broker, tabular: Tabular) -> None:
    broker.configure("q", keep="outcome")
    broker.send_many("q", [Draft(n, priority=n) for n in range(5)])
    broker.send("q", 9, delay=60)
    broker.reject(broker.receive("q")[0], reason="no")
    broker.ack(broker.receive("q")[0])
    assert {row["state"] for row in rows_of(tabular, "messages", states=["ready", "scheduled"])} == {"ready", "scheduled"}
    assert {row["state"] for row in rows_of(tabular, "messages", where={"state": "dead, finished"})} == {"dead", "finished"}
    between = rows_of(tabular, "messages", where={"min_priority": "1", "max_priority": 2})
    assert sorted(row["priority"] for row in between) == [1, 2]
    assert len(rows_of(tabular, "dead", where={"reason": "rejected"})) == 1
    assert rows_of(tabular, "dead", where={"reason": "it's'; --"}) == []
    assert len(rows_of(tabular, "history", where={"outcome": "acked"})) == 1
    assert {row["event"] for row in rows_of(tabular, "audit", where={"event": "acked"})} == {"acked"}
    now = round(rows_of(tabular, "audit")[-1]["at"].timestamp() * 1000)
    for kind in KINDS:
        assert rows_of(tabular, kind, where={"since": now + 1}) == [], kind
        assert rows_of(tabular, kind, where={"until": now + 1}) == rows_of(tabular, kind), kind


def test_a_text_in_a_predicate_is_only_a_text(broker: Broker, tabular: Tabular) -> None:
    broker.send("q", 1)
    for nasty in ("'", "\\", "\\'", "%s", ":event", "{x}", "');DROP TABLE rowq_audit;--"):
        assert rows_of(tabular, "audit", where={"event": nasty}) == []
    assert len(rows_of(tabular, "audit")) == 1


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda t: t.bounds("nothing", queues=None), "not a table"),
        (lambda t: t.settled("messages"), "not a log"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues=None, columns=["x"])), "no column 'x'"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues=None, where={"sql": "1"})), "cannot be filtered by 'sql'"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues=None, where={"since": "soon"})), "whole number"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues=None, where={"event": "ä"})), "must be an event"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues="q")), "list of names"),
        (lambda t: list(t.read(Piece("audit", 1, 2), queues=["a b"])), "not a queue name"),
        (lambda t: list(t.read(Piece("messages", 1, 2), queues=None, states=["lost"])), "not a state"),
        (lambda t: t.pieces("audit", (2, 1), 1, None), "cannot be cut"),
    ],
)
def test_what_makes_no_sense_is_refused(tabular: Tabular, call: Any, told: str) -> None:
    with pytest.raises(rowq.InvalidArgument, match=told):
        call(tabular)


def test_a_deleted_queue_is_still_in_the_audit(broker: Broker, tabular: Tabular) -> None:
    broker.send("gone", 1)
    broker.delete_queue("gone")
    assert "gone" in {row["queue"] for row in rows_of(tabular, "audit")}
    assert rows_of(tabular, "messages") == []


def test_hollow_rows_are_nobodys(broker: Broker, tabular: Tabular, url: str) -> None:
    clock = rowq.ManualClock()
    with rowq.connect(url, clock=clock, maintenance=False) as old:
        old.configure("q", keep="body", retention=10, audit_retention=10)
        old.send("q", 1)
        old.ack(old.receive("q")[0])
        clock.advance(60)
        old.maintain()
    assert rows_of(tabular, "history") == []
    assert [row["event"] for row in rows_of(tabular, "audit")] == []
    assert tabular.settled("audit") > 0 and tabular.settled("history") > 0


def test_postgresql_is_read_from_rows_where_its_arrow_driver_is_missing(
    broker: Broker, tabular: Tabular, url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.configure("q", keep="body")
    broker.send_many("q", [Draft({"n": n}, key=f"k{n}", delay=n % 2 * 60, headers={"a": str(n)}) for n in range(20)])
    broker.send("q", b"\x00")
    broker.ack_many(broker.receive("q", max=3))
    expected = [rows_of(tabular, kind) for kind in KINDS]
    with open_tabular(url) as other:
        dialect, _, _ = other._open()
        other.close()
        monkeypatch.setattr(type(dialect), "arrow", Dialect.arrow)
        assert [rows_of(other, kind) for kind in KINDS] == expected


def test_no_column_is_of_a_type_that_spark_does_not_know() -> None:
    for schema in SCHEMAS.values():
        assert {field.type for field in schema} <= {pa.string(), pa.int64(), pa.binary(), MOMENT}
        assert all(field.nullable for field in schema)
