"""The stream that looks at history and audit, asked as Spark asks it, in this process. Without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import rowq
from rowq.spark.options import Given
from rowq.spark.reader import LogReader
from rowq.spark.request import to_log
from tests.support.database import Database

Open = Callable[..., LogReader]
ALL = ReadAllAvailable()


@pytest.fixture
def log(url: str, broker: rowq.Broker) -> Iterator[Open]:
    opened: list[LogReader] = []

    def open_log(**options: str) -> LogReader:
        given = {"url": url, "mode": "log", "table": "audit", "pollInterval": "10ms", "minPartitions": "2", **options}
        opened.append(LogReader(to_log(Given(given)), ["line", "event"]))
        return opened[-1]

    yield open_log
    for reader in opened:
        reader.stop()


def lines(reader: LogReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [line for batch in batches for line in batch.column("line").to_pylist()]


def test_every_line_is_read_once_in_steps(log: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(10)))
    reader = log()
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(4))
    end = reader.latestOffset(middle, ALL)
    first, rest = lines(reader, start, middle), lines(reader, middle, end)
    assert (len(first), len(rest), sorted(set(first + rest))) == (4, 6, sorted(first + rest))
    assert lines(reader, start, middle) == first
    assert reader.latestOffset(end, ALL) == end


def test_a_stream_may_begin_at_the_end_at_a_line_or_at_a_moment(log: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(3)))
    latest = log(startingPosition="latest")
    start = latest.initialOffset()
    broker.send("orders", 3)
    assert len(lines(latest, start, latest.latestOffset(start, ALL))) == 1
    at_line = log(startingPosition=str(start["line"] - 1))
    assert len(lines(at_line, at_line.initialOffset(), at_line.latestOffset(at_line.initialOffset(), ALL))) == 2
    for moment, count in (("2020-01-01", 4), ("2120-01-01", 0)):
        at_moment = log(startingTimestamp=moment)
        assert len(lines(at_moment, at_moment.initialOffset(), at_moment.latestOffset(at_moment.initialOffset(), ALL))) == count


def test_a_stream_that_began_at_the_end_and_was_cut_off_begins_there_again(log: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(3)))
    before = log(startingPosition="latest")
    start = before.initialOffset()
    broker.send_many("orders", list(range(4)))
    end = before.latestOffset(start, ALL)
    broker.send_many("orders", list(range(5)))
    after = log(startingPosition="latest")
    assert lines(after, after.initialOffset(), end) == lines(before, start, end) == [4, 5, 6, 7]


def test_only_the_queues_that_were_asked_for_are_told_of(log: Open, broker: rowq.Broker) -> None:
    broker.send("orders", 1)
    broker.send("other", 2)
    reader = log(queue="other")
    start = reader.initialOffset()
    assert len(lines(reader, start, reader.latestOffset(start, ALL))) == 1


def test_a_run_with_available_now_ends_where_the_log_ended(log: Open, broker: rowq.Broker) -> None:
    broker.send("orders", 1)
    reader = log()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    broker.send("orders", 2)
    end = reader.latestOffset(start, ALL)
    assert len(lines(reader, start, end)) == 1
    assert reader.latestOffset(end, ALL) == end


def test_what_an_open_transaction_will_add_is_not_passed_by(log: Open, broker: rowq.Broker, database: Database) -> None:
    broker.send("orders", 1)
    connection = database.connection()
    broker.within(connection).send("orders", 2)
    expected = 2
    if database.url.startswith("postgresql"):  # on SQLite nobody else can write meanwhile
        broker.send("orders", 3)
        expected = 3
    reader = log()
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ALL)
    connection.commit()
    connection.close()
    end = reader.latestOffset(reader.latestOffset(middle, ALL), ALL)
    assert len(lines(reader, start, middle)) + len(lines(reader, middle, end)) == expected


def test_a_restored_database_is_refused_unless_the_user_lets_go(log: Open, broker: rowq.Broker) -> None:
    broker.send("orders", 1)
    reader = log()
    beyond = {**reader.initialOffset(), "line": 1_000}
    with pytest.raises(rowq.CheckpointMismatch, match="up to line 1000, and the database has fewer lines: it was restored"):
        reader.latestOffset(beyond, ALL)
    lax = log(failOnDataLoss="false")
    end = lax.latestOffset(beyond, ALL)
    assert end["line"] == 1
    assert lines(lax, beyond, end) == [1]


def test_a_restored_database_is_noticed_also_when_its_log_has_grown_since(log: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(3)))
    reader = log()
    before = reader.latestOffset(reader.initialOffset(), ALL)
    number, *told = before["landmark"]
    restored = {**before, "landmark": [number, told[0], told[1] - 1]}
    broker.send_many("orders", list(range(2)))
    assert reader.latestOffset(before, ALL)["line"] == 5
    with pytest.raises(rowq.CheckpointMismatch, match="up to line 3, and the database has other lines: it was restored"):
        reader.latestOffset(restored, ALL)
    lax = log(failOnDataLoss="false")
    end = lax.latestOffset(restored, ALL)
    assert lines(lax, restored, end) == [1, 2, 3, 4, 5]
    assert lines(lax, end, lax.latestOffset(end, ALL)) == []


def test_lines_that_a_restored_database_has_put_into_a_gap_are_noticed(log: Open, broker: rowq.Broker) -> None:
    """Numbers that were drawn for nothing, in a transaction that was rolled back, are drawn again after a restore."""
    broker.send_many("orders", list(range(3)))
    reader = log()
    before = reader.latestOffset(reader.initialOffset(), ALL)
    number, *told = before["landmark"]
    for landmark in ([number - 1, told[0] - 1, told[1]], None):
        with pytest.raises(rowq.CheckpointMismatch, match="up to line 3, and the database has other lines: it was restored"):
            reader.latestOffset({**before, "landmark": landmark}, ALL)


def test_a_checkpoint_whose_last_line_has_gone_by_its_age_goes_on(log: Open, broker: rowq.Broker, url: str) -> None:
    reader = log()
    clock = rowq.ManualClock()
    with rowq.connect(url, clock=clock, maintenance=False) as old:
        old.configure("orders", audit_retention=10)
        old.send_many("orders", list(range(3)))
        before = reader.latestOffset(reader.initialOffset(), ALL)
        assert before["landmark"][0] == before["line"]
        clock.advance(60)
        old.maintain()
    assert reader.latestOffset(before, ALL) == before
    broker.send("orders", 1)
    assert len(lines(reader, before, reader.latestOffset(before, ALL))) == 1


def test_a_checkpoint_of_an_earlier_release_goes_on(log: Open, broker: rowq.Broker) -> None:
    broker.send_many("orders", list(range(3)))
    reader = log()
    start = reader.latestOffset(reader.initialOffset(), ALL)
    earlier = {name: value for name, value in start.items() if name not in ("landmark", "beginning")}
    broker.send("orders", 1)
    assert lines(reader, earlier, reader.latestOffset(earlier, ALL)) == [4]


def test_a_checkpoint_of_something_else_is_refused(log: Open, broker: rowq.Broker) -> None:
    reader = log()
    start = reader.initialOffset()
    with pytest.raises(rowq.CheckpointMismatch, match="is a different one"):
        reader.latestOffset({**start, "identity": "7"}, ALL)
    with pytest.raises(rowq.CheckpointMismatch, match="the checkpoint is of 'audit', and table is 'history'"):
        log(table="history").latestOffset(start, ALL)


def test_the_end_of_the_log_is_reported(log: Open, broker: rowq.Broker) -> None:
    reader = log()
    assert reader.reportLatestOffset() is None
    broker.send("orders", 1)
    reader.initialOffset()
    report = reader.reportLatestOffset()
    assert report is not None
    assert report["line"] >= 1
