"""Coroutines in front of the same writer: they share transactions, mix with threads, and may go away at any moment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from rowq import BrokerClosed, StoreBusy
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Call
from tests.engine.jobs import Job, Performer
from tests.support.background import Background
from tests.support.crowd import Crowd
from tests.support.patience import DEADLINE, eventually, eventually_async


def test_the_calls_of_one_turn_of_the_loop_go_together(performer: Performer, group_commit: GroupCommit) -> None:
    async def main() -> list[str]:
        return await asyncio.gather(*(group_commit.run_async(Job(f"{n}")) for n in range(100)))

    assert asyncio.run(main()) == [f"{n}" for n in range(100)]
    assert performer.batches == [[f"{n}" for n in range(100)]]


def test_threads_and_loops_share_a_desk(performer: Performer, group_commit: GroupCommit) -> None:
    def from_a_thread(name: int) -> list[str]:
        return [group_commit.run(Job(f"{name}-{n}")) for n in range(150)]

    async def from_a_loop(name: int) -> list[str]:
        return await asyncio.gather(*(group_commit.run_async(Job(f"{name}-{n}")) for n in range(150)))

    async def one_after_another(name: int) -> list[str]:
        return [await group_commit.run_async(Job(f"{name}-{n}")) for n in range(150)]

    calls = [
        *(lambda name=name: from_a_thread(name) for name in range(4)),
        *(lambda name=name: asyncio.run(from_a_loop(name)) for name in range(4, 6)),
        *(lambda name=name: asyncio.run(one_after_another(name)) for name in range(6, 8)),
    ]
    assert Crowd(calls).results() == [[f"{name}-{n}" for n in range(150)] for name in range(8)]
    performed = [name for batch in performer.batches for name in batch]
    assert len(performed) == len(set(performed)) == 8 * 150


def test_who_goes_away_before_the_turn_comes_is_not_performed(performer: Performer, group_commit: GroupCommit) -> None:
    async def main() -> str:
        performer.hold()
        first = asyncio.create_task(group_commit.run_async(Job("first")))
        await eventually_async(lambda: performer.batches)
        second = asyncio.create_task(group_commit.run_async(Job("second")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        performer.let_go()
        return await first

    assert asyncio.run(main()) == "first"
    assert group_commit.run(Job("third")) == "third"
    assert performer.batches == [["first"], ["third"]]


def test_who_goes_away_while_being_performed_is_told_of(performer: Performer, group_commit: GroupCommit) -> None:
    gone: list[Call[Any]] = []
    group_commit.abandoned = gone.append
    job = Job("mine")

    async def main() -> None:
        performer.hold()
        mine = asyncio.create_task(group_commit.run_async(job))
        await eventually_async(lambda: performer.batches)
        mine.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mine
        performer.let_go()
        await eventually_async(lambda: gone)

    asyncio.run(main())
    assert gone == [job]
    assert job.result == "mine"


def test_who_goes_away_between_the_answer_and_looking_at_it_is_told_of(performer: Performer, group_commit: GroupCommit) -> None:
    """The answer lies in the future already when the task is cancelled: nobody else will ever see it."""
    gone: list[Call[Any]] = []
    group_commit.abandoned = gone.append
    job = Job("mine")

    async def main() -> None:
        mine = asyncio.create_task(group_commit.run_async(job))
        loop, answered = asyncio.get_running_loop(), threading.Event()

        def cancel_once_answered() -> None:
            # The loop stands still here, so the answer is in its queue; the task is behind it, and this comes in between.
            assert answered.wait(10)
            loop.call_soon(mine.cancel)

        def after(calls: Sequence[Call[Any]]) -> None:
            loop.call_soon_threadsafe(cancel_once_answered)

        performer.after = after
        call_soon = loop.call_soon_threadsafe

        def tell(callback: Any, *arguments: Any) -> asyncio.Handle:
            handle = call_soon(callback, *arguments)
            if callback is not cancel_once_answered:
                answered.set()
            return handle

        loop.call_soon_threadsafe = tell  # type: ignore[assignment, method-assign]
        with pytest.raises(asyncio.CancelledError):
            await mine
        await eventually_async(lambda: gone)

    asyncio.run(main())
    assert gone == [job]


def test_a_loop_that_ends_under_its_callers_holds_nobody_up(performer: Performer, group_commit: GroupCommit) -> None:
    gone: list[Call[Any]] = []
    group_commit.abandoned = gone.append
    performer.hold()
    loop = asyncio.new_event_loop()
    task = loop.create_task(group_commit.run_async(Job("mine")))
    loop.run_until_complete(eventually_async(lambda: performer.batches))
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    performer.let_go()
    assert Background(lambda: group_commit.run(Job("next"))).result() == "next"
    assert [call.result for call in gone] == ["mine"]


def test_a_coroutine_past_its_timeout_is_not_performed(performer: Performer) -> None:
    group_commit = GroupCommit(performer.perform, timeout=DEADLINE)

    async def main() -> None:
        performer.hold()
        first = asyncio.create_task(group_commit.run_async(Job("first")))
        await eventually_async(lambda: performer.batches)
        group_commit._timeout = -1  # one that comes now is late already
        late = asyncio.create_task(group_commit.run_async(Job("late")))
        await eventually_async(lambda: len(group_commit._line.waiting) == 1)
        performer.let_go()
        assert await first == "first"
        with pytest.raises(StoreBusy):
            await late

    asyncio.run(main())
    assert performer.batches == [["first"]]


def test_a_closed_desk_refuses_coroutines(group_commit: GroupCommit) -> None:
    group_commit.close(lambda: None)
    with pytest.raises(BrokerClosed):
        asyncio.run(group_commit.run_async(Job("a")))


def test_a_loop_that_ends_in_the_turn_of_its_call_holds_up_nobody(performer: Performer, group_commit: GroupCommit) -> None:
    async def leave() -> None:
        left.append(asyncio.ensure_future(group_commit.run_async(Job("left"))))
        await asyncio.sleep(0)

    def end_early() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        left[0].cancel()
        loop.run_until_complete(asyncio.gather(left[0], return_exceptions=True))
        loop.close()

    left: list[asyncio.Task[str]] = []
    Background(end_early).result()
    assert Background(lambda: asyncio.run(group_commit.run_async(Job("next")))).result() == "next"


def test_a_closed_group_commit_takes_no_coroutine_in(performer: Performer, group_commit: GroupCommit) -> None:
    group_commit.close(lambda: None)
    with pytest.raises(BrokerClosed):
        asyncio.run(group_commit.run_async(Job("late")))


class LateLook:
    """A turn that somebody takes just after another has seen it free."""

    def __init__(self, turn: threading.Lock) -> None:
        self._turn = turn
        self.is_late = True

    def locked(self) -> bool:
        was_late, self.is_late = self.is_late, False
        return not was_late and self._turn.locked()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def __enter__(self) -> bool:
        return self._turn.__enter__()

    def __exit__(self, *error: object) -> None:
        self._turn.release()


def test_a_thread_is_answered_while_loops_never_leave_the_desk(performer: Performer, group_commit: GroupCommit) -> None:
    """A worker stays at the writer as long as calls come: who waited for it to leave would wait for the end of all work."""

    async def main() -> str:
        loop, is_over = asyncio.get_running_loop(), threading.Event()
        coming: list[asyncio.Task[str]] = []

        def bring_the_next(calls: Sequence[Call[Any]]) -> None:
            if not is_over.is_set():
                loop.call_soon_threadsafe(lambda: coming.append(loop.create_task(group_commit.run_async(Job("next")))))
                eventually(lambda: len(group_commit._line.waiting) > 0)

        performer.before = bring_the_next
        coming.append(loop.create_task(group_commit.run_async(Job("first"))))
        await eventually_async(lambda: len(performer.batches) > 3)
        group_commit._turn = LateLook(group_commit._turn)  # type: ignore[assignment]
        try:
            return await asyncio.wait_for(asyncio.to_thread(group_commit.run, Job("thread")), 10)
        finally:
            is_over.set()
            while not all(task.done() for task in coming):
                await asyncio.gather(*coming)

    assert asyncio.run(main()) == "thread"
