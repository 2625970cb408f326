"""Acks that a statement of its own has done for good, beside others that then fail: nobody is told that nothing was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rowq
from rowq import Broker, Outcome
from rowq.engine.executor import Executor
from rowq.ids import Receipt, receipt_of_delivery
from rowq.model.lifecycle import Ack, Nack
from rowq.store.call import Settle
from rowq.store.postgresql.dialect import Postgresql
from tests.support.asking import ask
from tests.support.life import take
from tests.support.tables import faults_of

_FULL = """
CREATE FUNCTION rowq.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full';
END $$
"""
_ROOM_FOR_NOTHING = "CREATE TRIGGER refuse BEFORE INSERT ON rowq.rowq_history FOR EACH ROW EXECUTE FUNCTION rowq.refuse()"


@pytest.fixture
def broker(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(Postgresql, "settings_max_age_ms", 600_000)
    with rowq.connect(url, maintenance=False) as broker:
        yield broker
    assert faults_of(url) == {}


@pytest.fixture
def executor(broker: Broker, url: str) -> Iterator[Executor]:
    """It knows both queues: `plain` keeps nothing of what is acked; `kept` does, and there is no room for it."""
    executor = Executor(broker._engine.store)
    broker.configure("kept", keep="outcome")
    for queue in ("plain", "kept"):
        broker.send_many(queue, range(2))
        executor.perform([Settle([received(broker, queue)], Nack(delay=60))])
    ask(url, _FULL, _ROOM_FOR_NOTHING)
    yield executor
    ask(url, "DROP FUNCTION rowq.refuse CASCADE")


def received(broker: Broker, queue: str) -> Receipt:
    return receipt_of_delivery(take(broker, queue, lease=60).receipt)


def test_what_is_acked_for_good_is_told_so_when_others_fail(broker: Broker, executor: Executor) -> None:
    done, failed = (Settle([received(broker, queue)], Ack()) for queue in ("plain", "kept"))
    executor.perform([done, failed])
    assert done.error is None
    assert done.result == [Outcome.DONE]
    assert isinstance(failed.error, rowq.StoreFull)
    assert (broker.stats("plain").leased, broker.stats("kept").leased) == (0, 1)


def test_what_was_acked_in_part_is_of_unknown_outcome(broker: Broker, executor: Executor) -> None:
    call = Settle([received(broker, queue) for queue in ("plain", "kept")], Ack())
    executor.perform([call])
    assert isinstance(call.error, rowq.OutcomeUnknown)
    assert (broker.stats("plain").leased, broker.stats("kept").leased) == (0, 1)
