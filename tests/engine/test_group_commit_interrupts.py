"""Ctrl-C and the like: whoever is interrupted takes nobody along, keeps no lead, and nobody is answered with what was undone."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import pytest

from rowq import OutcomeUnknown
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call
from tests.engine.conftest import Gather
from tests.engine.jobs import Job, Performer
from tests.support.background import Background
from tests.support.patience import eventually


class Interrupted(BaseException):
    """As KeyboardInterrupt: nothing that a program catches by the way."""


def interrupt_batches_with(performer: Performer, name: str) -> None:
    def interrupt(calls: Sequence[Call[Any]]) -> None:
        if any(isinstance(call, Job) and call.name == name for call in calls):
            raise Interrupted

    performer.after = interrupt


@pytest.fixture
def interrupt_main_thread() -> Iterator[threading.Timer]:
    """A signal to the thread that runs the tests, once it has begun to wait."""

    def strike(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, strike)
    main = threading.main_thread().ident or 0
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    yield timer
    timer.cancel()
    timer.join()
    signal.signal(signal.SIGUSR1, before)


def test_an_interrupted_batch_answers_nobody_with_a_result(performer: Performer, group_commit: GroupCommit, gather: Gather) -> None:
    """Results are written into the calls before the commit; a batch that is interrupted there was rolled back."""
    interrupt_batches_with(performer, "b")
    first, *others = gather(Job("a"), Job("b"), Job("c"))
    performer.let_go()
    assert first.result() == "first"
    ends = [_end(call) for call in others]
    assert sorted(ends, key=lambda end: end.__name__) == [Interrupted, OutcomeUnknown, OutcomeUnknown]
    assert group_commit.run(Job("next")) == "next"


def test_a_lone_call_that_is_interrupted_leaves_the_desk_free(performer: Performer, group_commit: GroupCommit) -> None:
    interrupt_batches_with(performer, "a")
    with pytest.raises(Interrupted):
        group_commit.run(Job("a"))
    assert Background(lambda: group_commit.run(Job("b"))).result() == "b"


def test_after_an_interrupted_batch_the_next_ones_are_performed(performer: Performer, gather: Gather) -> None:
    interrupt_batches_with(performer, "b")
    calls = gather(Job("a"), Job("b", rows=1000), Job("c"))
    performer.let_go()
    assert (calls[0].result(), calls[1].result(), calls[3].result()) == ("first", "a", "c")
    assert _end(calls[2]) is Interrupted


def test_coroutines_go_on_after_their_batch_was_interrupted(performer: Performer, group_commit: GroupCommit) -> None:
    interrupt_batches_with(performer, "bad")

    async def main() -> str:
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(group_commit.run_async(Job("bad")), 10)
        return await asyncio.wait_for(group_commit.run_async(Job("good")), 10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda arguments: None)
        assert Background(lambda: asyncio.run(main())).result(30) == "good"


def test_a_waiting_thread_that_is_interrupted_goes_alone(
    performer: Performer, group_commit: GroupCommit, gather: Gather, interrupt_main_thread: threading.Timer
) -> None:
    gone: list[Call[Any]] = []
    group_commit.abandoned = gone.append
    calls = gather(Job("a"))
    interrupt_main_thread.start()
    mine = Job("mine")
    with pytest.raises(Interrupted):
        group_commit.run(mine)
    performer.let_go()
    assert [call.result() for call in calls] == ["first", "a"]
    assert group_commit.run(Job("next")) == "next"
    assert gone == ([mine] if mine.result else []), "what was performed for somebody who left must be told"


def test_a_thread_interrupted_while_it_leads_hands_the_lead_on(
    performer: Performer, group_commit: GroupCommit, interrupt_main_thread: threading.Timer
) -> None:
    performer.hold()
    others: list[Background[str]] = []

    def line_up() -> None:
        performer.wait_for("mine")
        others.append(Background(lambda: group_commit.run(Job("a"))))
        eventually(lambda: len(group_commit._line.waiting) == 1)
        interrupt_main_thread.start()

    lining_up = Background(line_up)
    with pytest.raises(Interrupted):
        group_commit.run(Job("mine"))
    performer.let_go()
    lining_up.result()
    assert others[0].result() == "a"


def _end(call: Background[str]) -> type[BaseException]:
    try:
        call.result()
    except BaseException as error:
        return type(error)
    raise AssertionError("it was answered")
