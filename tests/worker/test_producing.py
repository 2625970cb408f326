"""A producer: what is pushed is sent, alone or with others, and nothing that fails goes unsaid."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rowq
from rowq import Broker, BrokerClosed, InvalidArgument, PayloadTooLarge, QueueFull, RowqError, ServerUnavailable, Settings, State, StoreBusy
from rowq.model.duration import to_moment
from tests.support.database import new_database, run
from tests.support.life import payloads
from tests.support.patience import eventually
from tests.worker.conftest import Away
from tests.worker.moving import MovingClock

FOR_EVER = 3600


def ready(broker: Broker) -> int:
    return broker.stats("q").ready


def test_a_push_alone_is_on_disk_when_it_returns(broker: Broker) -> None:
    pushed = broker.producer("q").push({"to": "ada"})
    assert pushed.done()
    message = broker.get(pushed.result())
    assert (message.state, message.payload) == (State.READY, {"to": "ada"})


def test_a_batch_goes_out_when_it_is_full(broker: Broker) -> None:
    producer = broker.producer("q", batch_size=3, linger=FOR_EVER)
    pushed = [producer.push(number) for number in range(3)]
    ids = [one.result(timeout=20) for one in pushed]
    assert [broker.get(id).payload for id in ids] == [0, 1, 2]


def test_a_batch_that_is_not_full_waits_for_more(broker: Broker) -> None:
    producer = broker.producer("q", batch_size=3, linger=FOR_EVER)
    pushed = [producer.push(number) for number in range(5)]
    assert pushed[2].result(timeout=20)
    assert not pushed[3].done()
    producer.close()
    assert payloads(broker.receive("q", max=10)) == [0, 1, 2, 3, 4]


def test_a_batch_goes_out_when_it_has_lingered(broker: Broker) -> None:
    producer = broker.producer("q", batch_size=100, linger=0.01)
    assert broker.get(producer.push("x").result(timeout=20)).payload == "x"


def test_flush_returns_when_all_is_on_disk(broker: Broker) -> None:
    producer = broker.producer("q", batch_size=100, linger=FOR_EVER)
    pushed = [producer.push(number) for number in range(250)]
    producer.flush()
    assert all(one.done() for one in pushed)
    assert ready(broker) == 250


def test_closing_flushes_and_so_does_leaving_the_block(broker: Broker) -> None:
    with broker.producer("q", batch_size=100, linger=FOR_EVER) as producer:
        producer.push("x")
    assert ready(broker) == 1
    with pytest.raises(BrokerClosed):
        producer.push("y")


def test_far_more_than_may_wait_is_sent_in_order(broker: Broker) -> None:
    with broker.producer("q", batch_size=10, linger=FOR_EVER) as producer:
        for number in range(500):
            producer.push(number)
    assert payloads(broker.receive("q", max=500)) == list(range(500))


def test_what_becomes_of_a_payload_after_the_push_concerns_nobody(broker: Broker) -> None:
    payload = {"to": "ada"}
    with broker.producer("q", batch_size=10, linger=FOR_EVER) as producer:
        pushed = producer.push(payload)
        payload["to"] = "eve"
    assert broker.get(pushed.result()).payload == {"to": "ada"}


@pytest.mark.parametrize("deadline", [3_600, timedelta(hours=1), "moment"])
def test_a_deadline_is_a_duration_or_a_moment(broker: Broker, deadline: int | timedelta | str) -> None:
    given = datetime.now(UTC) + timedelta(hours=1) if isinstance(deadline, str) else deadline
    message = broker.get(broker.producer("q").push("x", deadline=given).result())
    assert message.deadline is not None
    assert 3_500_000 < message.deadline - message.sent_at <= 3_600_000


def test_a_deadline_runs_while_its_message_waits_for_the_batch(broker: Broker) -> None:
    producer = broker.producer("q", batch_size=100, linger=FOR_EVER)
    pushed, began = producer.push("x", deadline=60), time.monotonic()
    eventually(lambda: time.monotonic() > began + 0.2)
    producer.flush()
    message = broker.get(pushed.result())
    assert message.deadline is not None
    assert message.deadline - message.sent_at <= 59_800


def test_a_moment_does_not_move_while_its_message_waits_for_the_batch(broker: Broker, clock: MovingClock) -> None:
    moment = to_moment(clock.now() + 3_600_000)
    with broker.producer("q", batch_size=10, linger=FOR_EVER) as producer:
        pushed = producer.push("x", at=moment)
        clock.advance(600)
    assert to_moment(broker.get(pushed.result()).due_at or 0) == moment


@pytest.mark.parametrize("deadline", [datetime(2030, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), 0, "tomorrow"])
def test_a_deadline_without_a_time_zone_or_in_the_past_is_refused(file_broker: Broker, deadline: object) -> None:
    with pytest.raises(InvalidArgument):
        file_broker.producer("q", batch_size=10).push("x", deadline=deadline)  # type: ignore[arg-type]


def test_options_hold_for_every_push_unless_it_says_otherwise(broker: Broker) -> None:
    producer = broker.producer("q", priority=3, headers={"from": "shop"})
    first, second = producer.push(1).result(), producer.push(2, priority=7).result()
    assert [(broker.get(id).priority, broker.get(id).headers) for id in (first, second)] == [(3, {"from": "shop"}), (7, {"from": "shop"})]


def test_a_deadline_for_all_holds_unless_a_push_has_its_own(file_broker: Broker) -> None:
    producer = file_broker.producer("q", deadline=7_200)
    messages = [file_broker.get(producer.push(number, deadline=deadline).result()) for number, deadline in enumerate((None, 3_600))]
    assert [round((message.deadline or 0) - message.sent_at, -6) for message in messages] == [7_000_000, 4_000_000]


def test_what_waits_at_a_fork_is_sent_by_the_parent_alone(remote: Broker) -> None:
    producer = remote.producer("q", batch_size=10, linger=FOR_EVER)
    producer.push("by the parent")
    child = multiprocessing.get_context("fork").Process(target=producer.close)
    child.start()
    child.join(20)
    assert (child.exitcode, ready(remote)) == (0, 0)
    producer.close()
    assert payloads(remote.receive("q", max=10)) == ["by the parent"]


def test_one_that_is_refused_costs_no_other_of_its_batch(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=100)
    producer = broker.producer("q", batch_size=10, linger=FOR_EVER)
    pushed = [producer.push("x" * (500 if number == 3 else 5)) for number in range(9)]
    with pytest.raises(PayloadTooLarge):
        producer.flush()
    assert ready(broker) == 8
    assert [isinstance(one.exception(), PayloadTooLarge) for one in pushed] == [number == 3 for number in range(9)]
    producer.close()


def test_a_push_alone_raises_why_it_was_refused(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=100)
    with pytest.raises(PayloadTooLarge):
        broker.producer("q").push("x" * 500)


def test_closing_raises_what_was_refused_and_is_closed_all_the_same(broker: Broker) -> None:
    broker.configure("q", max_payload_bytes=100)
    producer = broker.producer("q", batch_size=10, linger=FOR_EVER)
    producer.push("x" * 500)
    with pytest.raises(PayloadTooLarge):
        producer.close()
    with pytest.raises(BrokerClosed):
        producer.push("y")


def test_what_could_not_be_sent_waits_until_the_server_is_back(away: Away, remote: Broker) -> None:
    producer = remote.producer("q", batch_size=10, linger=FOR_EVER)
    producer.push("first")
    producer.flush()
    with away():
        pushed = [producer.push(number) for number in range(5)]
        for attempt in (producer.flush, producer.close):
            with pytest.raises(RowqError):
                attempt()
        assert not any(one.done() for one in pushed)
    producer.close()
    assert payloads(remote.receive("q", max=10)) == ["first", 0, 1, 2, 3, 4]
    assert len({one.result() for one in pushed}) == 5


def test_what_a_busy_database_does_not_take_waits_until_it_does(tmp_path: Path) -> None:
    database = new_database("sqlite", tmp_path)

    def has_sent() -> bool:
        """Whether the database took it: on a busy machine a hasty broker may find it busy once more."""
        with suppress(StoreBusy):
            producer.flush()
            return True
        return False

    with (
        rowq.connect(database.url, maintenance=False) as broker,
        rowq.connect(f"{database.url}?timeout=0.1", maintenance=False) as hasty,
        closing(database.connection()) as hog,
    ):
        producer = hasty.producer("q", batch_size=10, linger=FOR_EVER)
        producer.push(0)
        eventually(has_sent)
        run(hog, "BEGIN IMMEDIATE")
        pushed = producer.push(1)
        with pytest.raises(StoreBusy):
            producer.flush()
        with pytest.raises(StoreBusy):
            hasty.producer("q").push("alone")
        assert not pushed.done()
        hog.rollback()
        eventually(has_sent)
        producer.close()
        assert payloads(broker.receive("q", max=10)) == [0, 1]


def test_what_lingered_while_the_server_was_away_goes_out_by_itself(away: Away, remote: Broker) -> None:
    producer = remote.producer("q", batch_size=10, linger=0.01)
    producer.push("first").result(timeout=20)
    with away():
        pushed = producer.push("second")
        with pytest.raises(RowqError):
            producer.flush()
    assert remote.get(pushed.result(timeout=20)).payload == "second"


def test_no_more_is_taken_than_may_wait_while_the_server_is_away(away: Away, remote: Broker) -> None:
    with away():
        producer = remote.producer("q", batch_size=2, linger=FOR_EVER)
        pushed = [producer.push(number) for number in range(20)]
        with pytest.raises(ServerUnavailable):
            producer.push("one too many")
    producer.close()
    assert payloads(remote.receive("q", max=30)) == list(range(20))
    assert all(one.done() for one in pushed)


def test_a_producer_sets_no_settings(broker: Broker) -> None:
    broker.configure("old", max_attempts=2)
    before = broker.settings("old")
    broker.producer("old").push("x")
    broker.producer("new").push("x")
    assert broker.settings("old") == before
    assert broker.settings("new") == Settings()


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": True}, {"linger": -1}, {"priority": "high"}])
def test_what_no_producer_can_do_is_refused_at_once(file_broker: Broker, options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        file_broker.producer("q", **options)  # type: ignore[arg-type]


def test_what_a_full_queue_does_not_take_waits_until_it_has_room(broker: Broker) -> None:
    broker.configure("q", max_depth=2)
    producer = broker.producer("q", batch_size=2, linger=FOR_EVER)
    for number in range(3):
        producer.push(number)
    with pytest.raises(QueueFull):
        producer.close()
    broker.ack_many(broker.receive("q", max=2))
    producer.close()
    assert payloads(broker.receive("q", max=2)) == [2]


def test_many_threads_may_share_a_producer(broker: Broker) -> None:
    with broker.producer("q", batch_size=20, linger=0.001) as producer:
        threads = [threading.Thread(target=lambda: [producer.push(number) for number in range(200)]) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Counter(payloads(broker.receive("q", max=1000))) == Counter(list(range(200)) * 5)
