"""Whether an audit is written, and for how long it is kept."""

from __future__ import annotations

from contextlib import suppress

from rowq import Broker, ManualClock, MessageNotFound
from tests.support.life import history_of, pass_time, take


def test_an_audit_that_is_off_tells_nothing(broker: Broker) -> None:
    broker.configure("q", audit=False)
    id = broker.send("q", "x")
    broker.nack(take(broker))
    assert broker.audit(id) == []


def test_an_audit_is_switched_at_any_time(broker: Broker) -> None:
    id = broker.send("q", "x")
    broker.configure("q", audit=False)
    broker.nack(take(broker), delay=0)
    broker.configure("q", audit=True)
    broker.ack(take(broker))
    assert history_of(broker, id) == ["enqueued", "delivered", "acked"]


def test_an_audit_is_kept_for_31_days(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    broker.ack(take(broker))
    clock.advance(31 * 86_400 - 1)
    broker.maintain()
    assert len(broker.audit(id)) == 3
    clock.advance(2)
    broker.maintain()
    with suppress(MessageNotFound):
        assert broker.audit(id) == []


def test_a_queue_says_how_long_its_audit_is_kept(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", audit_retention=100)
    id = broker.send("q", "x")
    clock.advance(60)
    broker.ack(take(broker))
    clock.advance(60)
    broker.maintain()
    assert history_of(broker, id) == ["delivered", "acked"]


def test_one_queue_keeps_its_audit_longer_than_another(broker: Broker, clock: ManualClock) -> None:
    broker.configure("brief", audit_retention=10)
    broker.configure("q", audit_retention=100)
    brief, long = broker.send("brief", "x"), broker.send("q", "x")
    pass_time(broker, clock, 60)
    assert (history_of(broker, brief), history_of(broker, long)) == ([], ["enqueued"])


def test_an_audit_longer_than_any_inner_batch_is_forgotten(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", audit_retention=10)
    sent = broker.send_many("q", list(range(1_300)))
    pass_time(broker, clock, 11)
    broker.ack_many(broker.receive("q", max=1_000))
    assert [history_of(broker, id) for id in (sent[0], sent[700], sent[999])] == [["delivered", "acked"]] * 3
    with suppress(MessageNotFound):
        assert broker.audit(sent[1_299]) == []


def test_an_audit_retention_of_zero_is_for_ever(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", audit_retention=0)
    id = broker.send("q", "x")
    clock.advance(3_650 * 86_400)
    broker.maintain()
    assert history_of(broker, id) == ["enqueued"]
