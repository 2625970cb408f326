"""What is put down is published once and whole, and is then a message like any other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rowq
from rowq import Broker
from rowq.spark.publish import Mapping, Publisher, open_publisher
from rowq.spark.tables import open_tabular
from tests.support.crowd import together
from tests.support.database import Database, run
from tests.support.life import depths
from tests.support.tables import faults_of
from tests.tables.reading import rows_of

Q = Mapping(queue="q")
WITHIN = 120


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return batch(payload=[str(number) for number in range(first, first + count)])


def staged(database: Database) -> int:
    connection = database.connection()
    try:
        return int(run(connection, f"SELECT COUNT(*) FROM {_prefix(database)}rowq_staged").fetchone()[0])
    finally:
        connection.close()


def _prefix(database: Database) -> str:
    return "rowq." if database.url.startswith("postgresql") else ""


def drained(broker: Broker, queue: str = "q") -> list[rowq.Delivery]:
    found: list[rowq.Delivery] = []
    while deliveries := broker.receive(queue, max=1_000, lease=600):
        found += deliveries
    return found


def test_what_is_only_put_down_is_no_message(broker: Broker, publisher: Publisher, database: Database) -> None:
    assert publisher.stage("s", [numbers(3)], Q) == 3
    assert broker.receive("q") == []
    assert staged(database) == 3


def test_published_messages_are_received_as_sent_ones_in_the_order_of_their_rows(
    broker: Broker, publisher: Publisher, database: Database, url: str
) -> None:
    count = publisher.stage("s", [numbers(2_500), numbers(500, 2_500)], Q)
    assert publisher.publish("w", 1, [("s", count)]) is True
    deliveries = drained(broker)
    assert [delivery.payload for delivery in deliveries] == list(range(3_000))
    first = deliveries[0]
    assert broker.get(first.id).payload == 0
    assert [(event.event, event.actor) for event in broker.audit(first.id)] == [("enqueued", "writer"), ("delivered", None)]
    broker.ack_many(deliveries[:1_000])
    assert staged(database) == 0
    assert faults_of(url) == {}


def test_every_option_of_a_send_may_be_a_column(publisher: Publisher, url: str) -> None:
    rows = batch(
        body=['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}', '{"n":5}'],
        to=["a", "a", "b", "b", "b"],
        head=pa.array([[("x", "ü")], None, None, None, None], pa.map_(pa.string(), pa.string())),
        key=["k", None, None, None, None],
        group=[None, None, "g", "g", None],
        rank=[None, 5, None, None, None],
        wait=[None, None, None, None, 60.5],
        life=[100, None, None, None, None],
        name=["my-id", None, None, None, None],
        tries=[None, 2, None, None, None],
        most=[None, None, None, None, 3600],
    )
    mapping = Mapping(
        queue_column="to",
        payload="body",
        headers="head",
        key="key",
        group="group",
        priority="rank",
        delay="wait",
        ttl="life",
        id="name",
        max_attempts="tries",
        deadline="most",
    )
    count = publisher.stage("s", [rows], mapping)
    publisher.publish("w", 1, [("s", count)])
    with rowq.connect(url, maintenance=False) as broker:
        mine = broker.get("my-id")
        assert (mine.key, mine.headers, mine.ttl_ms, mine.payload) == ("k", {"x": "ü"}, 100_000, {"n": 1})
        assert [delivery.priority for delivery in broker.receive("a", max=5)] == [5, 0]
        assert [delivery.payload for delivery in broker.receive("b", max=5)] == [{"n": 3}]
        stats = broker.stats("b")
        assert (stats.blocked, stats.scheduled, stats.leased) == (1, 1, 1)
        later = broker.browse("b", state="scheduled")[0]
        assert later.due_at == later.sent_at + 60_500
        assert later.deadline == later.sent_at + 3_600_000
    assert faults_of(url) == {}


def test_a_key_that_waits_is_replaced(broker: Broker, publisher: Publisher) -> None:
    old = broker.send("q", "old", key="k")
    count = publisher.stage("s", [batch(payload=['"new"', '"newer"'], key=["k", "k"])], Mapping(queue="q", key="key"))
    publisher.publish("w", 1, [("s", count)])
    (delivery,) = drained(broker)
    assert (delivery.id, delivery.payload) == (old, "newer")


def test_a_queue_with_a_ttl_gives_it_to_published_messages(broker: Broker, publisher: Publisher, url: str) -> None:
    broker.configure("q", ttl=60)
    publisher.publish("w", 1, [("s", publisher.stage("s", [numbers(3)], Q))])
    assert all(message.expires_at == message.sent_at + 60_000 for message in broker.browse("q"))
    assert faults_of(url) == {}


def test_a_queue_without_an_audit_gets_none(broker: Broker, publisher: Publisher) -> None:
    broker.configure("q", audit=False)
    publisher.publish("w", 1, [("s", publisher.stage("s", [numbers(3)], Q))])
    assert [broker.audit(message.id) for message in broker.browse("q")] == [[], [], []]


def test_a_paused_queue_takes_what_is_published(broker: Broker, publisher: Publisher) -> None:
    broker.configure("q")
    broker.pause("q")
    publisher.publish("w", 1, [("s", publisher.stage("s", [numbers(3)], Q))])
    assert broker.stats("q").ready == 3


def test_whoever_waits_is_woken(broker: Broker, publisher: Publisher) -> None:
    count = publisher.stage("s", [numbers(1)], Q)
    received, _ = together(lambda: broker.receive("q", wait=20), lambda: publisher.publish("w", 1, [("s", count)]))
    assert isinstance(received, list) and [delivery.payload for delivery in received] == [0]


def test_a_version_is_published_once(broker: Broker, publisher: Publisher, database: Database) -> None:
    first = publisher.stage("first", [numbers(3)], Q)
    again = publisher.stage("again", [numbers(3)], Q)
    assert publisher.publish("w", 1, [("first", first)]) is True
    assert publisher.publish("w", 1, [("again", again)]) is False
    assert publisher.publish("w", 1, [("first", first)]) is False
    assert broker.stats("q").ready == 3
    assert staged(database) == 0
    assert publisher.publish("w", 2, [("more", publisher.stage("more", [numbers(1)], Q))]) is True
    assert publisher.publish("v", 1, [("other", publisher.stage("other", [numbers(1)], Q))]) is True
    assert broker.stats("q").ready == 5


def test_a_version_without_messages_is_published_too(broker: Broker, publisher: Publisher) -> None:
    assert publisher.stage("empty", [], Q) == 0
    assert publisher.publish("w", 1, [("empty", 0)]) is True
    assert publisher.publish("w", 1, []) is False


def test_what_nobody_asks_for_again_is_published_and_not_remembered(broker: Broker, publisher: Publisher, database: Database) -> None:
    stages = [("a", publisher.stage("a", [numbers(3)], Q)), ("b", publisher.stage("b", [numbers(2, 3)], Q))]
    publisher.publish_unnumbered(stages)
    assert sorted(delivery.payload for delivery in drained(broker)) == [0, 1, 2, 3, 4]
    with pytest.raises(rowq.StagingLost):
        publisher.publish_unnumbered(stages)
    connection = database.connection()
    assert run(connection, f"SELECT COUNT(*) FROM {_prefix(database)}rowq_publications").fetchone()[0] == 0
    connection.close()
    assert (broker.receive("q"), staged(database)) == ([], 0)


def test_other_stages_are_left_alone(broker: Broker, publisher: Publisher, database: Database) -> None:
    """An attempt of a task that failed has put down some of the same rows."""
    publisher.stage("failed", [numbers(2)], Q)
    publisher.publish("w", 1, [("good", publisher.stage("good", [numbers(3)], Q))])
    assert (broker.stats("q").ready, staged(database)) == (3, 2)
    publisher.discard([("failed", 2)])
    assert staged(database) == 0


def test_two_publish_the_same_version_at_the_same_time_and_one_of_them_does_it(broker: Broker, url: str) -> None:
    with open_publisher(url) as one, open_publisher(url) as other:
        stages = [[(name, publisher.stage(name, [numbers(200)], Q))] for name, publisher in (("one", one), ("other", other))]
        answers = together(lambda: one.publish("w", 1, stages[0]), lambda: other.publish("w", 1, stages[1]), within=WITHIN)
    assert sorted(answers) == [False, True]
    assert sorted(delivery.payload for delivery in drained(broker)) == list(range(200))
    assert faults_of(url) == {}


def test_what_was_put_down_and_is_gone_is_missed(broker: Broker, publisher: Publisher, database: Database) -> None:
    """PostgreSQL empties the table when it comes back from a crash."""
    lost = publisher.stage("lost", [numbers(5)], Q)
    connection = database.connection()
    run(connection, f"DELETE FROM {_prefix(database)}rowq_staged WHERE stage = 'lost' AND place > 2")
    connection.commit()
    connection.close()
    kept = publisher.stage("kept", [numbers(2)], Q)
    with pytest.raises(rowq.StagingLost, match="5 messages were staged under 'lost', but 3 are there"):
        publisher.publish("w", 1, [("kept", kept), ("lost", lost)])
    assert depths(broker) == {}
    again = publisher.stage("again", [numbers(5)], Q)
    assert publisher.publish("w", 1, [("kept", kept), ("again", again)]) is True
    assert broker.stats("q").ready == 7


def test_a_full_queue_refuses_the_whole_publication_and_takes_it_later(
    broker: Broker, publisher: Publisher, database: Database, url: str
) -> None:
    broker.configure("small", max_depth=2_100)
    broker.send("small", "there")
    rows = batch(payload=[str(number) for number in range(2_200)], to=["q"] * 100 + ["small"] * 2_100)
    count = publisher.stage("s", [rows], Mapping(queue_column="to"))
    with pytest.raises(rowq.QueueFull, match="small"):
        publisher.publish("w", 1, [("s", count)])
    assert (depths(broker), depths(broker, "small"), staged(database)) == ({}, {"ready": 1}, 2_200)
    assert faults_of(url) == {}
    broker.ack(broker.receive("small")[0])
    assert publisher.publish("w", 1, [("s", count)]) is True
    assert (broker.stats("q").ready, broker.stats("small").ready) == (100, 2_100)


def test_an_id_that_is_taken_refuses_the_whole_publication(broker: Broker, publisher: Publisher) -> None:
    broker.send("q", 1, id="mine")
    count = publisher.stage("s", [batch(payload=["1", "2"], name=[None, "mine"])], Mapping(queue="q", id="name"))
    with pytest.raises(rowq.IdTaken, match="mine"):
        publisher.publish("w", 1, [("s", count)])
    assert broker.stats("q").ready == 1


def test_rows_are_sent_directly_where_nothing_else_is_asked_for(broker: Broker, publisher: Publisher, url: str) -> None:
    rows = batch(payload=["1", "2", "3"], to=["a", "b", "a"])
    assert publisher.send_directly([rows, rows], Mapping(queue_column="to")) == 6
    assert (broker.stats("a").ready, broker.stats("b").ready) == (4, 2)
    assert faults_of(url) == {}


def test_a_transaction_writes_as_many_rows_as_it_is_told(broker: Broker, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = Publisher._run

    def counted(publisher: Publisher, call: Any) -> Any:
        sizes.append(call.rows)
        return real(publisher, call)

    monkeypatch.setattr(Publisher, "_run", counted)
    with open_publisher(url, rows=3) as publisher:
        publisher.send_directly([numbers(2), numbers(2, 2), numbers(4, 4)], Q)
        assert publisher.stage("s", [numbers(2), numbers(2, 2), numbers(4, 4)], Q) == 8
        publisher.publish("w", 1, [("s", 8)])
    assert sizes[:3] == [3, 3, 2]
    assert sorted(delivery.payload for delivery in drained(broker)) == sorted([*range(8)] * 2)


def test_unpublished_stages_are_removed_after_a_day(url: str, broker: Broker, publisher: Publisher, database: Database) -> None:
    publisher.stage("old", [numbers(1_200)], Q)
    with rowq.connect(url, clock=rowq.ManualClock(broker._engine.clock.now() + 86_000_000), maintenance=False) as later:
        later.maintain()
        assert staged(database) == 1_200
    with rowq.connect(url, clock=rowq.ManualClock(broker._engine.clock.now() + 86_500_000), maintenance=False) as later:
        later.maintain()
    assert staged(database) == 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda p: p.publish("", 1, []), "a writer must be text"),
        (lambda p: p.publish("w" * 256, 1, []), "1 to 255"),
        (lambda p: p.publish("w", -1, []), "a version"),
        (lambda p: p.publish("w", "1", []), "a version"),
        (lambda p: p.publish("w", 1, [("s", 1), ("s", 1)]), "named twice"),
        (lambda p: p.publish_unnumbered([("s", 1), ("s", 1)]), "named twice"),
        (lambda _: open_publisher("sqlite:///x.db", rows=0), "between 1 and 1000000 rows"),
        (lambda p: p.stage("s" * 65, [], Q), "1 to 64"),
        (lambda p: p.stage("s", [], Mapping()), "either one queue"),
        (lambda p: p.stage("s", [], Mapping(queue="q", queue_column="x")), "either one queue"),
        (lambda p: p.stage("s", [], Mapping(queue="q.dlq")), "dead letters"),
    ],
)
def test_what_makes_no_sense_is_refused(publisher: Publisher, call: Any, told: str) -> None:
    with pytest.raises(rowq.InvalidArgument, match=told):
        call(publisher)


def test_a_server_is_no_database() -> None:
    with open_publisher("http://localhost:1") as publisher, pytest.raises(rowq.InvalidArgument):
        publisher.publish("w", 1, [])


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_tables_may_be_in_a_schema_of_any_name(url: str) -> None:
    elsewhere = f"{url}&schema=Shop_2"
    with rowq.connect(elsewhere, maintenance=False) as broker, open_publisher(elsewhere) as publisher, open_tabular(elsewhere) as tabular:
        publisher.publish("w", 1, [("s", publisher.stage("s", [numbers(3)], Q))])
        assert broker.stats("q").ready == 3
        assert len(rows_of(tabular, "messages")) == 3
        assert tabular.settled("audit") == 3
