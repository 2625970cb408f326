"""A queue that is named and does not exist: a batch read warns of it, and a stream refuses it unless it may make it."""

from __future__ import annotations

import logging

import pytest

from rowq import Broker, QueueNotFound
from rowq.spark.lease import Holder
from rowq.spark.options import Given
from rowq.spark.reader import LogReader, TableReader
from rowq.spark.request import to_lease, to_log, to_read


@pytest.fixture
def named(broker: Broker, url: str) -> dict[str, str]:
    """The options of a query whose queue is mistyped."""
    broker.send("orders", 1)
    return {"url": url, "queue": "ordres"}


def test_a_batch_read_warns(named: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rowq.spark"):
        TableReader(to_read(Given(named)), ["payload"]).partitions()
    assert "there is no queue 'ordres'" in caplog.text
    assert "did you mean 'orders'?" in caplog.text


def test_a_stream_refuses(named: dict[str, str], broker: Broker) -> None:
    with pytest.raises(QueueNotFound, match="createQueue=true; did you mean 'orders'"):
        Holder(to_lease(Given({**named, "streamId": "s"})))
    with pytest.raises(QueueNotFound, match="createQueue=true"):
        LogReader(to_log(Given({**named, "mode": "log"})), ["event"]).prepareForTriggerAvailableNow()
    assert broker.streams() == []
    assert [stats.queue for stats in broker.queues()] == ["orders"]


def test_a_stream_may_be_there_before_its_queue(named: dict[str, str], broker: Broker) -> None:
    holder = Holder(to_lease(Given({**named, "streamId": "s", "createQueue": "true"})))
    try:
        assert [stats.queue for stats in broker.queues()] == ["orders", "ordres"]
        broker.send("ordres", 1)
        assert holder.waiting() == 1
    finally:
        holder.close()
