"""Calls in one transaction: one that spoils it fails alone, the others are done once, and nobody hears what did not happen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from rowq import Broker, Draft, OutcomeUnknown, QueueFull, StoreBusy, StoreError, StoreFull
from rowq.engine.arguments import to_receipt
from rowq.engine.executor import Executor
from rowq.model.draft import prepare
from rowq.model.lifecycle import Ack
from rowq.store.call import Call, Execute, Receive, Send, Settle
from rowq.store.transaction import Transaction
from tests.store.driver import Spy, error


def executor_of(broker: Broker) -> Executor:
    return Executor(broker._engine.store)


def send(payload: Any, queue: str = "q") -> Send:
    return Send(queue, [prepare(queue, Draft(payload))])


def spoilt_send(queue: str = "q") -> Send:
    """Passes every check, and breaks a promise of the tables when it is written."""
    call = send("spoilt", queue)
    call.messages[0].format = None  # type: ignore[assignment]
    return call


def receive(queue: str = "q") -> Receive:
    return Receive(queue, 10, None, None, from_dead=False, delivery=None)


def boom(tx: Transaction) -> NoReturn:
    raise ZeroDivisionError


SPOILERS: dict[str, tuple[Callable[[], Call[Any]], type[Exception]]] = {
    "a send": (spoilt_send, StoreError),
    "an act": (lambda: Execute(boom), ZeroDivisionError),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_that_spoils_the_batch_fails_alone(broker: Broker, spoiler: str, place: int) -> None:
    make, kind = SPOILERS[spoiler]
    spoilt, good, other = make(), send("good"), send("other")
    calls: list[Call[Any]] = [good, other]
    calls.insert(place, spoilt)
    executor_of(broker).perform(calls)
    assert isinstance(spoilt.error, kind)
    assert spoilt.result is None
    assert good.error is None and other.error is None
    assert good.result and other.result
    assert sorted(message.payload for message in broker.walk()) == ["good", "other"]


def test_settles_and_receives_beside_a_spoilt_call_are_done_once(broker: Broker) -> None:
    broker.send_many("q", ["acked", "waiting"])
    delivery = broker.receive("q")[0]
    settle, taken = Settle([to_receipt(delivery)], Ack()), receive()
    executor_of(broker).perform([settle, spoilt_send(), taken])
    assert settle.result == ["done"]
    assert [row[0] for row in taken.result or []] == [2]
    assert broker.stats("q").depth == 1
    assert [event.event for event in broker.audit(delivery.id)] == ["enqueued", "delivered", "acked"]


def test_a_refusal_in_company_does_not_outlive_it(broker: Broker) -> None:
    """The spoilt one took the last place. Alone the other is admitted, and must hear that it was."""
    broker.configure("q", max_depth=1)
    spoilt, good = spoilt_send(), send("good")
    executor_of(broker).perform([spoilt, good])
    assert good.error is None
    assert good.result == [broker.browse("q")[0].id]


def test_a_refused_call_writes_nothing_and_spoils_nothing(broker: Broker) -> None:
    broker.configure("q", max_depth=1)
    first, second, elsewhere = send("first"), send("second"), send("elsewhere", "p")
    executor_of(broker).perform([first, second, elsewhere])
    assert isinstance(second.error, QueueFull)
    assert first.result and elsewhere.result
    assert sorted(message.payload for message in broker.walk()) == ["elsewhere", "first"]


def test_what_is_sent_in_a_batch_can_be_received_in_it(broker: Broker) -> None:
    sent, taken = send("x"), receive()
    executor_of(broker).perform([taken, sent])
    assert len(taken.result or []) == 1


def test_receives_of_one_batch_share_what_is_there_in_the_order_they_came(broker: Broker) -> None:
    broker.send_many("q", range(15))
    first, second, third = receive(), receive(), receive()
    executor_of(broker).perform([first, second, third])
    assert [len(call.result or []) for call in (first, second, third)] == [10, 5, 0]


def test_the_second_settle_of_one_batch_comes_too_late(broker: Broker) -> None:
    broker.send("q", "x")
    delivery = broker.receive("q")[0]
    first, second = (Settle([to_receipt(delivery)], Ack()) for _ in range(2))
    executor_of(broker).perform([first, second])
    assert (first.result, second.result) == (["done"], ["not_found"])


def test_a_busy_database_is_nobodys_fault(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []

    def be_busy(*, durable: bool, patient: bool) -> NoReturn:
        begun.append(durable)
        raise StoreBusy("locked")

    monkeypatch.setattr(broker._engine.dialect, "writing", be_busy)
    calls = [send("a"), send("b"), send("c")]
    executor_of(broker).perform(calls)
    assert [type(call.error) for call in calls] == [StoreBusy] * 3
    assert len(begun) == 1, "asking again for each would take four times as long"


def test_a_commit_whose_outcome_is_unknown_is_not_repeated(spy: Spy, broker: Broker) -> None:
    commits: list[str] = []

    def fail_after_commit(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "COMMIT":
            commits.append(statement)
            raise error(sqlite3.SQLITE_IOERR_FSYNC)

    spy.after = fail_after_commit
    calls = [send("a"), send("b")]
    executor_of(broker).perform(calls)
    assert [type(call.error) for call in calls] == [OutcomeUnknown] * 2
    assert [call.result for call in calls] == [None, None]
    assert len(commits) == 1
    assert broker.stats("q").ready == 2


def test_a_commit_that_failed_for_sure_was_not_written(spy: Spy, broker: Broker) -> None:
    def fail_before_commit(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "COMMIT":
            raise error(sqlite3.SQLITE_FULL)

    spy.before = fail_before_commit
    calls = [send("a"), send("b")]
    executor_of(broker).perform(calls)
    assert [type(call.error) for call in calls] == [StoreFull] * 2
    spy.before = lambda connection, statement: None
    broker.send("q", "c")
    assert [message.payload for message in broker.walk()] == ["c"]


def test_after_an_interrupt_nothing_half_done_is_remembered(spy: Spy, broker: Broker) -> None:
    def interrupt(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "COMMIT":
            raise KeyboardInterrupt

    spy.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        broker.send("new", "x")
    spy.before = lambda connection, statement: None
    broker.send("new", "y")
    assert [stats.queue for stats in broker.queues()] == ["new"], "the queue's row belonged to what was undone"
    assert [message.payload for message in broker.walk()] == ["y"]


def test_what_is_committed_is_not_done_again_when_nobody_can_be_woken(broker: Broker) -> None:
    def fail(woken: object) -> NoReturn:
        raise RuntimeError("no bell")

    broker._engine.store.on_notification = fail
    broker._engine.store.listeners = (fail,)
    calls = [send("a"), send("b")]
    executor_of(broker).perform(calls)
    assert [call.error for call in calls] == [None, None]
    assert broker.stats("q").ready == 2
