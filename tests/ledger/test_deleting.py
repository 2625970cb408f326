"""A queue that a stream takes from is not deleted under it."""

from __future__ import annotations

import pytest

from rowq import Broker, HeldByStream
from rowq.engine.insights import Insights
from rowq.spark.ledger import Ledger
from tests.ledger.reading import STREAM, payloads


def test_a_stream_that_takes_messages_meanwhile_keeps_them(broker: Broker, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.send_many("orders", ["a", "b", "c"])
    held, look = ledger.claim(STREAM, ["orders"]), Insights.last_seq

    def look_and_take(insights: Insights, queue: str) -> int:
        found = look(insights, queue)
        assert ledger.take(STREAM, held.epoch, 0, 2) == 1
        return found

    monkeypatch.setattr(Insights, "last_seq", look_and_take)
    with pytest.raises(HeldByStream):
        broker.delete_queue("orders")
    assert payloads(ledger, 0, 1) == ["a", "b"]
    assert broker.stats("orders").ready == 1
