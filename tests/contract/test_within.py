"""Sending and settling inside the application's own transaction: both or neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowq import Broker, Draft, IdTaken, InvalidArgument, LeaseLost, Outcome, PayloadTooLarge, RowqError
from rowq.model.duration import to_moment
from tests.support.background import Background
from tests.support.database import run
from tests.support.harness import Harness
from tests.support.life import assert_gone, depths, drain, take
from tests.support.row_names import row_name

WAYS = ("sync", "async")


Connection = Any
"""Of whatever driver the database has."""


@pytest.fixture
def connection(harness: Harness) -> Iterator[Connection]:
    connection = harness.connection()
    yield connection
    connection.close()


def order(connection: Connection) -> None:
    """What the application itself does: it also opens the transaction."""
    run(connection, "INSERT INTO orders VALUES ('lamp')")


@contextmanager
def committed(connection: Connection) -> Iterator[None]:
    """One transaction of the application."""
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def orders(connection: Connection) -> int:
    return int(run(connection, "SELECT count(*) FROM orders").fetchone()[0])


def test_a_commit_sends_with_the_rest(broker: Broker, connection: Connection) -> None:
    order(connection)
    id = broker.within(connection).send("q", {"order": "lamp"}, headers={"h": "1"})
    connection.commit()
    assert orders(connection) == 1
    delivery = take(broker)
    assert (delivery.id, delivery.payload, delivery.headers) == (id, {"order": "lamp"}, {"h": "1"})


def test_a_rollback_takes_the_send_back(broker: Broker, connection: Connection) -> None:
    order(connection)
    id = broker.within(connection).send("q", "x")
    connection.rollback()
    assert orders(connection) == 0
    assert_gone(broker, id)
    assert broker.receive("q") == []
    assert not any(stats.depth for stats in broker.queues())


def test_nothing_is_seen_before_the_commit(broker: Broker, connection: Connection) -> None:
    order(connection)
    broker.within(connection).send_many("q", [1, 2])
    assert depths(broker) == {}
    connection.commit()
    assert depths(broker) == {"ready": 2}


def test_a_queue_whose_first_send_was_taken_back_is_used_as_ever(broker: Broker, connection: Connection) -> None:
    order(connection)
    broker.within(connection).send("q", "never")
    connection.rollback()
    broker.send("q", "x")
    broker.configure("q", lease=5)
    assert drain(broker) == ["x"]


def test_many_are_sent_with_options(broker: Broker, connection: Connection) -> None:
    order(connection)
    broker.within(connection).send_many("q", [Draft("low"), Draft("high", priority=1), Draft("later", delay=60)])
    connection.commit()
    assert depths(broker) == {"ready": 2, "scheduled": 1}
    assert drain(broker) == ["high", "low"]


def test_a_message_is_due_at_its_moment(broker: Broker, connection: Connection, harness: Harness) -> None:
    order(connection)
    id = broker.within(connection).send("q", "later", at=to_moment(harness.clock.now() + 60_000))
    connection.commit()
    assert broker.get(id).due_at == harness.clock.now() + 60_000


def test_a_connection_serves_one_transaction_after_another(broker: Broker, connection: Connection) -> None:
    for number in range(3):
        with committed(connection):
            order(connection)
            broker.within(connection).send("q", number)
    assert drain(broker) == [0, 1, 2]


def test_a_transaction_that_fails_sends_nothing(broker: Broker, connection: Connection) -> None:
    def fail() -> None:
        with committed(connection):
            order(connection)
            broker.within(connection).send("q", "x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert depths(broker) == {} and orders(connection) == 0


Settle = Callable[[Any, Any], object]

SETTLES: dict[str, tuple[Settle, dict[str, int]]] = {
    "ack": (lambda verbs, delivery: verbs.ack(delivery), {}),
    "nack": (lambda verbs, delivery: verbs.nack(delivery, reason="boom"), {"scheduled": 1}),
    "reject": (lambda verbs, delivery: verbs.reject(delivery, reason="boom"), {"dead": 1}),
    "reschedule": (lambda verbs, delivery: verbs.reschedule(delivery, 60), {"scheduled": 1}),
    "ack_many": (lambda verbs, delivery: verbs.ack_many([delivery]), {}),
    "nack_many": (lambda verbs, delivery: verbs.nack_many([delivery]), {"scheduled": 1}),
    "reject_many": (lambda verbs, delivery: verbs.reject_many([delivery]), {"dead": 1}),
    "reschedule_many": (lambda verbs, delivery: verbs.reschedule_many([delivery], 60), {"scheduled": 1}),
}
every_settle = pytest.mark.parametrize(("settle", "expected"), SETTLES.values(), ids=SETTLES)


@every_settle
def test_a_commit_settles_with_the_rest(broker: Broker, connection: Connection, settle: Settle, expected: dict[str, int]) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    order(connection)
    settle(broker.within(connection), delivery)
    connection.commit()
    assert depths(broker) == expected
    with pytest.raises(LeaseLost):
        broker.ack(delivery)


@every_settle
def test_a_rollback_leaves_the_lease_as_it_was(broker: Broker, connection: Connection, settle: Settle, expected: dict[str, int]) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    before = broker.get(delivery.id), broker.audit(delivery.id)
    order(connection)
    settle(broker.within(connection), delivery)
    connection.rollback()
    assert (broker.get(delivery.id), broker.audit(delivery.id)) == before
    broker.ack(delivery)


def test_an_ack_and_the_next_step_go_together(broker: Broker, connection: Connection) -> None:
    broker.send("first", "x")
    delivery = take(broker, "first")
    with committed(connection):
        order(connection)
        verbs = broker.within(connection)
        verbs.ack(delivery)
        verbs.send("second", "y")
    assert drain(broker, "first") == []
    assert drain(broker, "second") == ["y"]


def test_a_lost_lease_is_told_inside_a_transaction(broker: Broker, connection: Connection) -> None:
    broker.send("q", "x")
    delivery = take(broker)
    broker.ack(delivery)
    order(connection)
    with pytest.raises(LeaseLost):
        broker.within(connection).ack(delivery)
    assert broker.within(connection).ack_many([delivery]) == [Outcome.NOT_FOUND]
    connection.commit()
    assert orders(connection) == 1


BAD_SENDS: dict[str, tuple[Callable[[Any], object], type[RowqError]]] = {
    "no JSON": (lambda verbs: verbs.send("q", float("nan")), InvalidArgument),
    "too large": (lambda verbs: verbs.send("q", b"x" * (256 * 1024 + 1)), PayloadTooLarge),
    "a bad name": (lambda verbs: verbs.send("a b", "x"), InvalidArgument),
    "an id that is taken": (lambda verbs: verbs.send("q", "x", id="taken"), IdTaken),
    "one of many": (lambda verbs: verbs.send_many("q", ["x", Draft("x", id="taken")]), IdTaken),
}


@pytest.mark.parametrize(("send", "error"), BAD_SENDS.values(), ids=BAD_SENDS)
def test_a_refused_send_leaves_the_transaction_to_its_owner(
    broker: Broker, connection: Connection, send: Callable[[Any], object], error: type[RowqError]
) -> None:
    broker.send("q", "before", id="taken")
    order(connection)
    with pytest.raises(error):
        send(broker.within(connection))
    connection.commit()
    assert orders(connection) == 1
    assert drain(broker) == ["before"]


def test_a_replacement_is_taken_back(broker: Broker, connection: Connection) -> None:
    id = broker.send("q", "old", key="k")
    order(connection)
    assert broker.within(connection).send("q", "new", key="k") == id
    connection.rollback()
    assert broker.get(id).payload == "old"


def test_a_rollback_leaves_no_group_stuck(broker: Broker, connection: Connection) -> None:
    order(connection)
    broker.within(connection).send("q", "never", group="g")
    connection.rollback()
    broker.send("q", "x", group="g")
    assert drain(broker) == ["x"]


def test_ids_of_a_rolled_back_send_are_not_confused(broker: Broker, connection: Connection) -> None:
    order(connection)
    lost = broker.within(connection).send("q", "never")
    connection.rollback()
    kept = broker.send("q", "x")
    assert broker.get(kept).payload == "x"
    assert lost == kept or depths(broker) == {"ready": 1}


def test_a_waiter_hears_of_a_committed_send(broker: Broker, connection: Connection) -> None:
    broker.send("q", "first")
    drain(broker)
    waiter = Background(lambda: broker.receive("q", wait=20))
    order(connection)
    broker.within(connection).send("q", "x")
    connection.commit()
    assert [delivery.payload for delivery in waiter.result()] == ["x"]


def test_a_connection_of_another_kind_is_refused(harness: Harness, tmp_path: Path) -> None:
    broker = harness.broker
    other = sqlite3.connect(tmp_path / "other.db", check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RowqError):
        broker.within(other).send("q", "x")
    other.close()
    assert depths(broker) == {}


def test_a_connection_to_the_tables_of_another_database_is_refused(harness: Harness) -> None:
    broker = harness.broker
    elsewhere = harness.elsewhere()
    other = elsewhere.connection()
    order(other)
    with pytest.raises(InvalidArgument):
        broker.within(other).send("q", "x")
    other.commit()
    assert depths(elsewhere.broker) == depths(broker) == {}
    other.close()
    elsewhere.close()


@pytest.mark.parametrize("no_connection", [None, "sqlite:///jobs.db", object()], ids=row_name)
def test_what_is_no_connection_is_refused(harness: Harness, no_connection: Any) -> None:
    broker = harness.broker
    with pytest.raises(InvalidArgument):
        broker.within(no_connection).send("q", "x")


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor])
def test_a_cursor_factory_of_the_application_is_no_obstacle(broker: Broker, connection: Connection, factory: Any) -> None:
    if not isinstance(connection, psycopg.Connection):
        pytest.skip("of PostgreSQL only")
    order(connection)
    connection.cursor_factory = factory
    broker.within(connection).send("q", "x", key="k")
    connection.commit()
    assert drain(broker) == ["x"]


def test_a_row_factory_of_the_application_is_no_obstacle(broker: Broker, connection: Connection) -> None:
    if not isinstance(connection, sqlite3.Connection):
        pytest.skip("of SQLite only")
    connection.row_factory = lambda cursor, row: dict(zip([column[0] for column in cursor.description], row, strict=True))
    run(connection, "INSERT INTO orders VALUES ('lamp')")
    broker.within(connection).send("q", "x", key="k")
    connection.commit()
    assert drain(broker) == ["x"]


def test_a_closed_connection_is_an_error_of_ours(broker: Broker, harness: Harness) -> None:
    closed = harness.connection()
    closed.close()
    with pytest.raises(RowqError):
        broker.within(closed).send("q", "x")
