"""The stream that consumes, asked as Spark asks it, in this process. Without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import rowq
from rowq.spark import lease
from rowq.spark.lease import LeaseReader
from rowq.spark.options import Given
from rowq.spark.request import to_lease
from tests.support.patience import eventually

Open = Callable[..., LeaseReader]
ALL = ReadAllAvailable()


@pytest.fixture
def stream(url: str, broker: rowq.Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """`stream(**options)`: the reader of one more query."""
    monkeypatch.setattr(lease, "_end_politely", lambda: None)
    opened: list[LeaseReader] = []

    def open_stream(**options: str) -> LeaseReader:
        given = {"url": url, "queue": "orders", "streamId": "billing", "pollInterval": "10ms", "minPartitions": "2", **options}
        opened.append(LeaseReader(to_lease(Given(given)), ["payload_text", "_batch", "_place"]))
        return opened[-1]

    yield open_stream
    for reader in opened:
        reader.stop()


def read(reader: LeaseReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The payloads between two offsets, in their order."""
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [int(text) for batch in batches for text in batch.column("payload_text").to_pylist()]


def leased(broker: rowq.Broker) -> int:
    return broker.stats("orders").leased


def test_a_batch_is_the_same_as_often_as_it_is_read(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(10)))
    reader = stream()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(6))
    assert reader.initialOffset() == start
    assert read(reader, start, end) == read(reader, start, end) == list(range(6))


def test_asking_for_more_settles_what_came_before(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(10)))
    reader = stream()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(6))
    assert leased(broker) == 6
    second = reader.latestOffset(first, ALL)
    assert (leased(broker), read(reader, first, second)) == (4, [6, 7, 8, 9])
    assert reader.latestOffset(second, ALL) == second
    assert leased(broker) == 0


def test_a_commit_says_it_once_more_and_does_no_harm(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(4)))
    reader = stream()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    second = reader.latestOffset(first, ALL)
    reader.commit(first)
    assert leased(broker) == 2
    reader.commit(second)
    reader.commit(second)
    assert leased(broker) == 0


def test_a_batch_that_spark_never_wrote_down_comes_again(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(4)))
    before = stream()
    start = before.initialOffset()
    end = before.latestOffset(start, ReadMaxRows(3))
    after = stream()
    assert after.initialOffset() == start
    assert after.latestOffset(start, ALL) == end
    assert read(after, start, end) == [0, 1, 2]


def test_the_older_of_two_queries_is_refused(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(4)))
    old, new = stream(), stream()
    start = old.initialOffset()
    new.initialOffset()
    with pytest.raises(rowq.StreamTaken, match="one query for each streamId"):
        old.latestOffset(start, ALL)
    assert read(new, start, new.latestOffset(start, ALL)) == [0, 1, 2, 3]


def test_a_checkpoint_of_another_stream_is_refused(stream: Open, broker: rowq.Broker) -> None:
    broker.configure("orders")
    offset = stream().initialOffset()
    other = stream(streamId="shipping")
    with pytest.raises(rowq.CheckpointMismatch, match="belongs to 'billing', and streamId is 'shipping'"):
        other.latestOffset(offset, ALL)
    with pytest.raises(rowq.CheckpointMismatch, match="another kind of source"):
        other.latestOffset({"line": 7}, ALL)


def test_a_checkpoint_that_belongs_elsewhere_stops_nobody(stream: Open, broker: rowq.Broker) -> None:
    """A claim would: whoever held the stream before is refused from then on."""
    broker.send_many("orders", list(range(4)))
    healthy = stream()
    start = healthy.initialOffset()
    astray = stream()
    astray.prepareForTriggerAvailableNow()
    for offset in ({**start, "stream": "shipping"}, {**start, "identity": "7"}):
        with pytest.raises(rowq.CheckpointMismatch):
            astray.latestOffset(offset, ALL)
    assert healthy.latestOffset(start, ALL)["batch"] == start["batch"] + 1


def test_a_checkpoint_of_another_database_is_refused(stream: Open, broker: rowq.Broker) -> None:
    broker.configure("orders")
    reader = stream()
    with pytest.raises(rowq.CheckpointMismatch, match="another database"):
        reader.latestOffset({**reader.initialOffset(), "identity": "7"}, ALL)


def test_a_restored_database_is_refused(stream: Open, broker: rowq.Broker) -> None:
    broker.configure("orders")
    reader = stream()
    with pytest.raises(rowq.DatabaseRestored, match="fresh checkpoint"):
        reader.latestOffset({**reader.initialOffset(), "batch": 7}, ALL)


def test_a_revoked_stream_is_refused_unless_the_user_lets_go(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(4)))
    reader = stream()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(3))
    broker.revoke_stream("billing")
    with pytest.raises(rowq.StreamRevoked):
        stream().partitions(start, end)
    lax = stream(failOnDataLoss="false")
    assert lax.partitions(start, end) == []
    later = lax.latestOffset(end, ALL)
    assert sorted(read(lax, end, later)) == [0, 1, 2, 3]
    assert lax.latestOffset(later, ALL) == later
    assert leased(broker) == 0


def test_a_run_with_available_now_takes_what_was_there_and_ends(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(5)))
    reader = stream()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(start, ReadMaxRows(3))
    broker.send_many("orders", list(range(5, 20)))
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert read(reader, first, second) == [3, 4, 5]
    assert reader.latestOffset(second, ReadMaxRows(3)) == second
    assert leased(broker) == 0


def test_a_run_with_available_now_takes_what_has_fallen_due(stream: Open, url: str) -> None:
    """Where nobody else is there to see that it has."""
    with rowq.connect(url, maintenance=False) as alone:
        alone.send("orders", 1, delay=0.01)

    def finds_it() -> bool:
        reader = stream()
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        return reader.latestOffset(start, ALL) != start

    eventually(finds_it)


def test_a_small_batch_waits_for_more(stream: Open, broker: rowq.Broker) -> None:
    reader = stream(minMessagesPerTrigger="3", maxTriggerDelay="1h")
    broker.send("orders", 0)
    first = reader.latestOffset(reader.initialOffset(), ALL)
    broker.send_many("orders", [1, 2])
    assert reader.latestOffset(first, ALL) == first
    assert leased(broker) == 0
    broker.send("orders", 3)
    assert read(reader, first, reader.latestOffset(first, ALL)) == [1, 2, 3]


def test_a_small_batch_waits_no_longer_than_it_may(stream: Open, broker: rowq.Broker) -> None:
    reader = stream(minMessagesPerTrigger="3", maxTriggerDelay="0s")
    broker.send("orders", 0)
    first = reader.latestOffset(reader.initialOffset(), ALL)
    broker.send("orders", 1)
    assert read(reader, first, reader.latestOffset(first, ALL)) == [1]


def test_a_batch_is_no_larger_than_its_bytes_allow(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", [10**9 + n for n in range(600)])
    reader = stream(maxBytesPerTrigger="2kb")
    start = reader.initialOffset()
    assert 100 < len(read(reader, start, reader.latestOffset(start, ReadMaxRows(1000)))) < 300


def test_a_group_is_read_by_one_task_in_its_order(stream: Open, broker: rowq.Broker) -> None:
    for n in range(12):
        broker.send("orders", n, group="one" if n % 2 else None)
    reader = stream(minPartitions="4")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ALL))
    assert len(parts) > 1
    with_group = [[int(text) for batch in reader.read(part) for text in batch.column("payload_text").to_pylist()] for part in parts]
    (together,) = [numbers for part in with_group if (numbers := [n for n in part if n % 2])]
    assert together == sorted(together)


def test_order_of_the_whole_batch_is_kept_in_one_task(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(50)))
    reader = stream(preserveOrder="batch", minPartitions="8")
    start = reader.initialOffset()
    assert len(reader.partitions(start, reader.latestOffset(start, ALL))) == 1


def test_quarantined_messages_are_left_out_of_the_batch(stream: Open, broker: rowq.Broker) -> None:
    ids = broker.send_many("orders", list(range(4)))
    reader = stream()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    broker.quarantine("billing", end["batch"], [ids[1]], reason="poison")
    again = stream()
    assert read(again, start, end) == [0, 2, 3]
    assert broker.stats("orders").dead == 1


def test_several_queues_are_one_stream(stream: Open, broker: rowq.Broker, url: str) -> None:
    broker.send("orders", 1)
    broker.send("returns", 2)
    broker.send("mails", 3)
    both = LeaseReader(to_lease(Given({"url": url, "queuePattern": ".*r.*s", "streamId": "both"})), ["payload_text"])
    start = both.initialOffset()
    assert sorted(read(both, start, both.latestOffset(start, ALL))) == [1, 2]
    both.stop()


def test_the_lag_is_reported(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(5)))
    broker.send("orders", 5, delay=60)
    reader = stream()
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    report = reader.reportLatestOffset()
    assert report is not None
    assert (report["ready"], report["scheduled"], report["leased"], report["batch"]) == (3, 1, 2, 1)


def test_a_stream_that_works_beats(stream: Open, broker: rowq.Broker) -> None:
    broker.configure("orders")
    stream(heartbeatInterval="10ms").initialOffset()
    (first,) = broker.streams()
    eventually(lambda: broker.streams()[0].beat_at > first.beat_at)


def test_a_silent_rival_gives_its_messages_back(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(4)))
    dead = stream(streamId="dead", heartbeatInterval="1h")
    dead.latestOffset(dead.initialOffset(), ALL)
    alive = stream(streamTimeout="50ms", heartbeatInterval="10ms")
    start = alive.initialOffset()
    eventually(lambda: alive.latestOffset(start, ALL) != start)
    assert sorted(read(alive, start, alive.latestOffset(start, ALL))) == [0, 1, 2, 3]


def test_the_next_batch_is_leased_while_spark_works_on_the_one_before(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(9)))
    reader = stream(prefetchBatches="2")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(3))
    eventually(lambda: leased(broker) == 9)
    assert broker.streams()[0].acked_batch == 0
    assert read(reader, start, first) == [0, 1, 2]
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert (leased(broker), read(reader, first, second)) == (6, [3, 4, 5])
    third = reader.latestOffset(second, ReadMaxRows(3))
    assert read(reader, second, third) == [6, 7, 8]
    assert reader.latestOffset(third, ReadMaxRows(3)) == third
    assert leased(broker) == 0


def test_what_comes_while_spark_works_is_leased_as_soon_as_it_is_a_batch(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(5)))
    reader = stream(prefetchBatches="1")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(3))
    broker.send("orders", 5)
    eventually(lambda: leased(broker) == 6)
    broker.send_many("orders", [6, 7, 8])
    assert read(reader, first, reader.latestOffset(first, ReadMaxRows(3))) == [3, 4, 5]
    eventually(lambda: leased(broker) == 6)


def test_what_was_leased_ahead_is_not_lost_with_its_query(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(6)))
    before = stream(prefetchBatches="1")
    start = before.initialOffset()
    first = before.latestOffset(start, ReadMaxRows(3))
    eventually(lambda: leased(broker) == 6)
    before.stop()
    after = stream()
    assert after.latestOffset(start, ALL) == first
    assert read(after, first, after.latestOffset(first, ALL)) == [3, 4, 5]


def test_a_run_with_available_now_leaves_nothing_leased_ahead(stream: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(5)))
    reader = stream(prefetchBatches="3")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    broker.send_many("orders", list(range(5, 30)))
    first = reader.latestOffset(start, ReadMaxRows(3))
    eventually(lambda: leased(broker) == 6)
    second = reader.latestOffset(first, ReadMaxRows(3))
    assert read(reader, first, second) == [3, 4, 5]
    assert reader.latestOffset(second, ReadMaxRows(3)) == second
    reader.stop()
    assert leased(broker) == 0


def test_a_query_whose_stream_was_taken_leases_nothing_ahead(stream: Open, broker: rowq.Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.send_many("orders", list(range(4)))
    old = stream(prefetchBatches="1")
    first = old.latestOffset(old.initialOffset(), ReadMaxRows(3))
    stream().initialOffset()
    broker.send_many("orders", list(range(4, 9)))
    eventually(lambda: "nothing is leased ahead of batch 1" in caplog.text)
    assert leased(broker) == 3
    with pytest.raises(rowq.StreamTaken):
        old.latestOffset(first, ALL)


def test_a_queue_that_delivers_at_most_once_is_refused(stream: Open, broker: rowq.Broker) -> None:
    broker.configure("orders", delivery="at_most_once")
    with pytest.raises(rowq.InvalidArgument, match="at most once"):
        stream().initialOffset()
