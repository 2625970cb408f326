"""The sinks, asked as Spark asks them, in this process. Without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest

import rowq
from rowq.spark import sink
from rowq.spark.options import Given
from rowq.spark.request import to_write
from rowq.spark.sink import Staged, StreamSink
from tests.support.database import Database, run
from tests.support.life import depths

QUERY = "5c9a1f2e"


def stream_sink(url: str, **options: str) -> StreamSink:
    return StreamSink(to_write(Given({"url": url, "queue": "done", **options}), ["payload"]))


def staged(writer: StreamSink, *payloads: str, query: str | None = QUERY) -> Staged:
    """What a task of that query puts down."""
    message = writer.write(iter([pa.record_batch({"payload": list(payloads)})]))
    assert isinstance(message, Staged)
    message.query = query
    return message


def payloads(broker: rowq.Broker) -> list[str]:
    return sorted(str(message.payload) for message in broker.walk("done"))


def test_a_batch_is_published_when_it_is_committed_and_once(broker: rowq.Broker, url: str) -> None:
    writer = stream_sink(url)
    first = [staged(writer, "1", "2"), None, staged(writer, "3")]
    assert depths(broker, "done") == {}
    writer.commit(list(first), 0)
    writer.commit([staged(writer, "1", "2", "3")], 0)
    assert payloads(broker) == ["1", "2", "3"]


def test_another_query_has_batches_of_its_own(broker: rowq.Broker, url: str) -> None:
    writer = stream_sink(url)
    writer.commit([staged(writer, "1")], 0)
    writer.commit([staged(writer, "2", query="another")], 0)
    assert payloads(broker) == ["1", "2"]


def test_what_is_given_up_is_not_published(broker: rowq.Broker, url: str, database: Database) -> None:
    writer = stream_sink(url)
    writer.abort([staged(writer, "1"), None], 0)
    connection = database.connection()
    prefix = "rowq." if url.startswith("postgresql") else ""
    assert run(connection, f"SELECT COUNT(*) FROM {prefix}rowq_staged").fetchone()[0] == 0
    connection.close()
    assert depths(broker, "done") == {}


def test_a_query_without_an_id_is_refused_and_not_taken_for_another(broker: rowq.Broker, url: str) -> None:
    writer = stream_sink(url)
    with pytest.raises(rowq.InvalidArgument, match="deliveryMode=direct"):
        writer.commit([staged(writer, "1", query=None)], 0)


def test_a_batch_without_tasks_is_nothing(broker: rowq.Broker, url: str) -> None:
    stream_sink(url).commit([], 0)
    assert depths(broker, "done") == {}


def test_only_the_last_batches_are_remembered(broker: rowq.Broker, url: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "KEPT", 2)
    writer = stream_sink(url)
    for batch in range(5):
        writer.commit([staged(writer, str(batch))], batch)
    connection = database.connection()
    prefix = "rowq." if url.startswith("postgresql") else ""
    versions = sorted(row[0] for row in run(connection, f"SELECT version FROM {prefix}rowq_publications").fetchall())
    connection.close()
    assert versions == [3, 4]
    assert payloads(broker) == ["0", "1", "2", "3", "4"]


def test_a_direct_sink_has_sent_before_anything_is_committed(broker: rowq.Broker, url: str) -> None:
    writer = stream_sink(url, deliveryMode="direct")
    writer.commit([staged(writer, "1", query=None)], 0)
    assert payloads(broker) == ["1"]
