"""Calls that arrive together become one batch: its bounds, its order, and who is answered with what."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from rowq import BrokerClosed, QueueFull, StoreBusy
from rowq.engine.call_queue import MAX_BYTES, MAX_ROWS, MAX_WAITING_BYTES
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call
from tests.engine.conftest import Gather
from tests.engine.jobs import Job, Performer
from tests.support.background import Background
from tests.support.crowd import Crowd
from tests.support.patience import DEADLINE, eventually


def answers(calls: list[Background[str]]) -> list[str]:
    return [call.result() for call in calls]


def test_a_lone_call_is_performed_alone(performer: Performer, group_commit: GroupCommit) -> None:
    assert group_commit.run(Job("a")) == "a"
    assert performer.batches == [["a"]]


def test_calls_that_come_meanwhile_go_together_in_the_order_they_came(performer: Performer, gather: Gather) -> None:
    calls = gather(Job("a"), Job("b"), Job("c"))
    performer.let_go()
    assert answers(calls) == ["first", "a", "b", "c"]
    assert performer.batches == [["first"], ["a", "b", "c"]]


def test_nobody_is_answered_before_the_whole_batch_is_through(performer: Performer, gather: Gather) -> None:
    committed = threading.Event()

    def commit(performed: Sequence[Call[Any]]) -> None:
        assert len(performed) == 1 or committed.wait(DEADLINE)

    calls = gather(Job("a"), Job("b"))
    performer.after = commit
    performer.let_go()
    performer.wait_for("b")
    with pytest.raises(AssertionError, match="no answer within"):
        calls[-1].result(0.5)
    committed.set()
    assert answers(calls) == ["first", "a", "b"]


def test_a_batch_has_a_bound_in_rows(performer: Performer, gather: Gather) -> None:
    calls = gather(Job("a", rows=MAX_ROWS - 1), Job("b", rows=1), Job("c", rows=1))
    performer.let_go()
    answers(calls)
    assert performer.batches == [["first"], ["a", "b"], ["c"]]


def test_a_batch_has_a_bound_in_bytes(performer: Performer, gather: Gather) -> None:
    calls = gather(Job("a", size=MAX_BYTES), Job("b", size=1), Job("c", size=MAX_BYTES))
    performer.let_go()
    answers(calls)
    assert performer.batches == [["first"], ["a"], ["b"], ["c"]]


def test_a_call_over_the_bounds_is_performed_by_itself(performer: Performer, gather: Gather) -> None:
    calls = gather(Job("a"), Job("b", rows=MAX_ROWS * 50, size=MAX_BYTES * 2), Job("c"))
    performer.let_go()
    answers(calls)
    assert performer.batches == [["first"], ["a"], ["b"], ["c"]]


def test_nobody_is_overtaken_by_a_smaller_call(performer: Performer, gather: Gather) -> None:
    calls = gather(Job("a", rows=600), Job("b", rows=600), Job("c", rows=1))
    performer.let_go()
    answers(calls)
    assert performer.batches == [["first"], ["a"], ["b", "c"]]


def test_an_error_is_the_callers_own(performer: Performer, gather: Gather) -> None:
    def refuse(calls: object) -> None:
        bad.result, bad.error = None, QueueFull("full")

    bad = Job("bad")
    performer.after = refuse
    first, good, refused = gather(Job("good"), bad)
    performer.let_go()
    assert answers([first, good]) == ["first", "good"]
    with pytest.raises(QueueFull):
        refused.result()


def test_more_waiting_bytes_than_the_bound_are_refused(performer: Performer, group_commit: GroupCommit, gather: Gather) -> None:
    calls = gather(Job("a", size=MAX_WAITING_BYTES), Job("b", size=1))
    with pytest.raises(StoreBusy, match="slow down"):
        group_commit.run(Job("c"))
    performer.let_go()
    assert answers(calls) == ["first", "a", "b"]
    assert group_commit.run(Job("c")) == "c"


def test_a_call_past_its_timeout_is_not_performed(performer: Performer) -> None:
    group_commit = GroupCommit(performer.perform, timeout=DEADLINE)
    performer.hold()
    first = Background(lambda: group_commit.run(Job("first")))
    performer.wait_for("first")
    group_commit._timeout = -1  # those that come now are late already
    late = [Background(lambda: group_commit.run(Job("late"))) for _ in range(3)]
    eventually(lambda: len(group_commit._line.waiting) == 3)
    group_commit._timeout = DEADLINE
    performer.let_go()
    assert first.result() == "first"
    for call in late:
        with pytest.raises(StoreBusy, match="not written"):
            call.result()
    assert performer.batches == [["first"]]
    assert group_commit.run(Job("next")) == "next"


def test_many_threads_are_all_answered_with_their_own(performer: Performer, group_commit: GroupCommit) -> None:
    def run(thread: int) -> list[str]:
        return [group_commit.run(Job(f"{thread}-{number}")) for number in range(200)]

    answered = Crowd([lambda thread=thread: run(thread) for thread in range(16)]).results()  # type: ignore[misc]
    assert answered == [[f"{thread}-{number}" for number in range(200)] for thread in range(16)]
    performed = [name for batch in performer.batches for name in batch]
    assert sorted(performed) == sorted(name for names in answered for name in names)


def test_the_turn_is_handed_on_without_anybody_looking_up(performer: Performer, gather: Gather, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.engine.group_commit.LOOK_UP_EVERY", 30.0)
    calls = gather(Job("a"), Job("b"))
    performer.let_go()
    assert [call.result(10) for call in calls] == ["first", "a", "b"]


def test_a_thread_keeps_its_order(performer: Performer, group_commit: GroupCommit) -> None:
    Crowd([lambda: [group_commit.run(Job(f"{n}")) for n in range(100)]]).results()
    assert [name for batch in performer.batches for name in batch] == [f"{n}" for n in range(100)]


def test_an_idle_desk_may_be_used_for_something_else(performer: Performer, group_commit: GroupCommit, gather: Gather) -> None:
    assert group_commit.if_idle(lambda: "tidied") == "tidied"
    calls = gather(Job("a"))
    assert group_commit.if_idle(lambda: "tidied") is None
    performer.let_go()
    answers(calls)


def test_calls_that_come_while_the_desk_is_used_for_something_else_are_performed_after_it(
    performer: Performer, group_commit: GroupCommit
) -> None:
    release = threading.Event()
    tidying = Background(lambda: group_commit.if_idle(lambda: release.wait(10)))
    call = Background(lambda: group_commit.run(Job("a")))
    release.set()
    assert tidying.result()
    assert call.result() == "a"


def test_an_error_of_something_else_leaves_the_desk_free(group_commit: GroupCommit) -> None:
    def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        group_commit.if_idle(fail)
    assert group_commit.run(Job("a")) == "a"


def test_closing_answers_those_who_wait_and_refuses_those_who_come(performer: Performer, group_commit: GroupCommit, gather: Gather) -> None:
    finished: list[str] = []
    calls = gather(Job("a"), Job("b"))
    closing = Background(lambda: group_commit.close(lambda: finished.append("closed")))
    with pytest.raises(BrokerClosed):
        Background(lambda: _run_until_refused(group_commit)).result()
    assert not finished
    performer.let_go()
    closing.result()
    assert answers(calls) == ["first", "a", "b"]
    assert finished == ["closed"]


def test_closing_twice_closes_once(group_commit: GroupCommit) -> None:
    finished: list[str] = []
    group_commit.close(lambda: finished.append("closed"))
    group_commit.close(lambda: finished.append("again"))
    assert finished == ["closed"]
    assert group_commit.if_idle(lambda: 1) is None


def _run_until_refused(group_commit: GroupCommit) -> None:
    """Closing begins in another thread; until it has, a call would wait at the writer that is held."""
    while True:
        group_commit.check_open()
        threading.Event().wait(0.001)
