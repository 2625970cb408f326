"""Async group commits: calls of event loops are performed inside the loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import uvloop

from rowq.engine.async_group_commit import FEW, AsyncGroupCommit
from rowq.engine.call_queue import MAX_WAITING_BYTES
from rowq.engine.group_commit import GroupCommit
from rowq.errors import BrokerClosed, OutcomeUnknown, StoreBusy
from rowq.store.call import Call
from rowq.store.retry import WouldWait
from rowq.store.server import greenlet_bridge
from tests.engine.jobs import Job, Performer
from tests.support.background import Background
from tests.support.patience import DEADLINE, eventually, eventually_async


class Tower:
    """Performs jobs in a greenlet. One that is told to hold waits at a socket, as for a database."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()
        self.holds = False
        self.error: BaseException | None = None
        self.closed = 0
        self.near, self._far = socket.socketpair()

    def perform(self, calls: Sequence[Call[Any]]) -> None:
        names = [call.name for call in calls if isinstance(call, Job)]
        self.batches.append(names)
        self.threads.add(threading.get_ident())
        if self.holds:
            here = greenlet_bridge.current()
            assert here is not None
            here.wait_for_socket(self.near.fileno(), self)
            self.near.recv(1)
        if self.error is not None:
            raise self.error
        for call, name in zip(calls, names, strict=True):
            if name == "would wait":
                call.error = WouldWait("somebody is in the way")
            call.result = name

    def let_go(self, *, for_good: bool = True) -> None:
        self.holds = self.holds and not for_good
        self._far.send(b"x")

    def close(self) -> None:
        """What a greenlet holds is closed."""
        self.closed += 1

    def end(self) -> None:
        self.near.close()
        self._far.close()


@pytest.fixture
def tower() -> Iterator[Tower]:
    tower = Tower()
    yield tower
    tower.end()


@pytest.fixture
def slow() -> Iterator[GroupCommit]:
    group_commit = GroupCommit(Performer().perform, timeout=30)
    yield group_commit
    group_commit.close(lambda: None)


@pytest.fixture
def async_group_commit(tower: Tower, slow: GroupCommit) -> AsyncGroupCommit:
    return AsyncGroupCommit(lambda: tower.perform, timeout=30, slow=slow)


async def all_of(async_group_commit: AsyncGroupCommit, *names: str) -> list[str]:
    return await asyncio.gather(*(async_group_commit.run_async(Job(name)) for name in names))


def test_calls_of_one_turn_go_together_and_in_the_thread_of_the_loop(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    assert asyncio.run(all_of(async_group_commit, "a", "b", "c")) == ["a", "b", "c"]
    assert tower.batches == [["a", "b", "c"]]
    assert tower.threads == {threading.get_ident()}


def test_the_loop_goes_on_while_a_batch_is_on_its_way_and_the_next_one_gathers(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> list[str]:
        tower.holds = True
        first = asyncio.create_task(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        others = [asyncio.create_task(async_group_commit.run_async(Job(name))) for name in "ab"]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(task.done() for task in (first, *others))
        tower.let_go()
        return [await task for task in (first, *others)]

    assert asyncio.run(main()) == ["first", "a", "b"]
    assert tower.batches == [["first"], ["a", "b"]]


def test_the_loop_of_the_server_flies_too(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> list[str]:
        tower.holds = True
        first = asyncio.create_task(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        second = asyncio.create_task(async_group_commit.run_async(Job("second")))
        tower.let_go()
        return [await first, await second]

    with closing(uvloop.new_event_loop()) as loop:
        assert loop.run_until_complete(main()) == ["first", "second"]
    assert tower.threads == {threading.get_ident()}


def test_of_many_one_half_goes_first(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    names = [str(number) for number in range(4 * FEW)]
    assert asyncio.run(all_of(async_group_commit, *names)) == names
    assert [len(batch) for batch in tower.batches] == [2 * FEW, FEW, FEW]
    assert [name for batch in tower.batches for name in batch] == names


def test_a_call_that_would_wait_moves_to_a_patient_executor(async_group_commit: AsyncGroupCommit) -> None:
    assert asyncio.run(all_of(async_group_commit, "would wait", "a")) == ["would wait", "a"]


def test_an_answer_to_somebody_who_has_gone_away_is_told_of(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    gone: list[Call[Any]] = []
    async_group_commit.abandoned = gone.append
    job = Job("mine")

    async def main() -> None:
        tower.holds = True
        mine = asyncio.create_task(async_group_commit.run_async(job))
        await eventually_async(lambda: tower.batches)
        mine.cancel()
        with pytest.raises(asyncio.CancelledError):
            await mine
        tower.let_go()
        await eventually_async(lambda: gone)

    asyncio.run(main())
    assert gone == [job]
    assert job.result == "mine"


def test_a_call_past_its_timeout_is_not_performed(tower: Tower, slow: GroupCommit) -> None:
    async_group_commit = AsyncGroupCommit(lambda: tower.perform, timeout=DEADLINE, slow=slow)

    async def main() -> None:
        tower.holds = True
        first = asyncio.create_task(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        async_group_commit._timeout = -1  # one that comes now is late already
        late = asyncio.create_task(async_group_commit.run_async(Job("late")))
        (route,) = async_group_commit._routes.values()
        await eventually_async(lambda: len(route._line.waiting) == 1)
        tower.let_go()
        assert await first == "first"
        with pytest.raises(StoreBusy):
            await late

    asyncio.run(main())
    assert tower.batches == [["first"]]


def test_a_call_past_its_timeout_is_answered_though_those_before_it_still_wait(tower: Tower, slow: GroupCommit) -> None:
    async_group_commit = AsyncGroupCommit(lambda: tower.perform, timeout=DEADLINE, slow=slow)

    async def main() -> None:
        tower.holds = True
        first = asyncio.create_task(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        (route,) = async_group_commit._routes.values()
        async_group_commit._timeout = route._timeout = 0.05
        for _ in range(2):
            with pytest.raises(StoreBusy, match="not written"):
                await asyncio.wait_for(async_group_commit.run_async(Job("late")), DEADLINE)
        assert not first.done()
        async_group_commit._timeout = DEADLINE
        tower.let_go()
        assert await first == "first"
        assert await async_group_commit.run_async(Job("next")) == "next"

    asyncio.run(main())
    assert tower.batches == [["first"], ["next"]]


def test_more_than_fits_into_memory_is_refused(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> None:
        tower.holds = True
        first = asyncio.create_task(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        large = asyncio.create_task(async_group_commit.run_async(Job("large", size=MAX_WAITING_BYTES + 1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(StoreBusy, match="slow down"):
            await async_group_commit.run_async(Job("more"))
        tower.let_go()
        assert list(await asyncio.gather(first, large)) == ["first", "large"]

    asyncio.run(main())


def test_closing_waits_for_what_is_on_its_way_and_then_nothing_comes_in(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> None:
        tower.holds = True
        tasks = [asyncio.create_task(async_group_commit.run_async(Job("first")))]
        await eventually_async(lambda: tower.batches)
        tasks.append(asyncio.create_task(async_group_commit.run_async(Job("second"))))
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(async_group_commit.close))
        await asyncio.to_thread(threading.Event().wait, 0.05)
        assert not closing.done()
        tower.let_go()
        assert list(await asyncio.gather(*tasks)) == ["first", "second"]
        await closing
        with pytest.raises(BrokerClosed):
            await async_group_commit.run_async(Job("late"))

    asyncio.run(main())


def test_a_loop_that_ends_under_its_callers_holds_nobody_up(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    tower.holds = True

    def end_early() -> None:
        with closing(asyncio.new_event_loop()) as loop:
            task = loop.create_task(async_group_commit.run_async(Job("left")))
            loop.run_until_complete(eventually_async(lambda: tower.batches))
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    Background(end_early).result()
    tower.holds = False
    assert Background(lambda: asyncio.run(all_of(async_group_commit, "next"))).result() == ["next"]
    async_group_commit.close()
    assert tower.closed == 1


def test_loops_of_several_threads_do_not_meet(async_group_commit: AsyncGroupCommit) -> None:
    names = [[f"{thread}-{number}" for number in range(50)] for thread in range(4)]
    loops = [Background(lambda some=some: asyncio.run(all_of(async_group_commit, *some))) for some in names]  # type: ignore[misc]
    assert [loop.result() for loop in loops] == names


def test_an_interrupt_ends_the_batch_and_not_the_others(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> None:
        tower.holds = True
        first = asyncio.ensure_future(async_group_commit.run_async(Job("first")))
        await eventually_async(lambda: tower.batches)
        second = asyncio.ensure_future(async_group_commit.run_async(Job("second")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calls.extend([first, second])
        tower.error = KeyboardInterrupt()
        tower.let_go()
        await asyncio.wait(calls)

    calls: list[asyncio.Future[str]] = []
    with closing(asyncio.new_event_loop()) as loop:
        task = loop.create_task(main())
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
        tower.error = None
        loop.run_until_complete(task)
    with pytest.raises(OutcomeUnknown):
        calls[0].result()
    assert calls[1].result() == "second"


class Watched(asyncio.SelectorEventLoop):
    """Lets something happen just when somebody looks whether it has ended."""

    when_looked_at: Callable[[], object] | None = None

    def is_closed(self) -> bool:
        happens, self.when_looked_at = self.when_looked_at, None
        if happens is not None:
            happens()
        return super().is_closed()


def test_loops_may_begin_while_another_one_clears_up_behind_those_that_have_ended(async_group_commit: AsyncGroupCommit) -> None:
    with closing(Watched()) as ended:
        ended.run_until_complete(all_of(async_group_commit, "first"))
    ended.when_looked_at = lambda: Background(lambda: asyncio.run(all_of(async_group_commit, "meanwhile"))).result()
    assert asyncio.run(all_of(async_group_commit, "last")) == ["last"]


def test_closing_inside_the_loop_does_not_cut_off_what_is_on_its_way(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> str:
        tower.holds = True
        mine = asyncio.create_task(async_group_commit.run_async(Job("mine")))
        await eventually_async(lambda: tower.batches)
        async_group_commit.close()
        assert tower.closed == 0
        tower.let_go()
        return await mine

    assert asyncio.run(main()) == "mine"


def test_a_loop_that_goes_on_after_closing_tells_those_who_were_on_their_way(tower: Tower, slow: GroupCommit) -> None:
    def perform(calls: Sequence[Call[Any]]) -> None:
        here = greenlet_bridge.current()
        assert here is not None
        tower.batches.append(["mine"])
        here.wait_for_socket(tower.near.fileno(), tower)
        calls[0].error = StoreBusy(f"closed {tower.closed} times")

    async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
    with closing(asyncio.new_event_loop()) as loop:
        mine = loop.create_task(async_group_commit.run_async(Job("mine")))
        loop.run_until_complete(eventually_async(lambda: tower.batches))
        async_group_commit.close()
        with pytest.raises(StoreBusy, match="closed 1 times"):
            loop.run_until_complete(asyncio.wait_for(mine, 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_leaves_what_is_on_its_way_to_its_parent(async_group_commit: AsyncGroupCommit, tower: Tower) -> None:
    async def main() -> str:
        tower.holds = True
        mine = asyncio.create_task(async_group_commit.run_async(Job("mine")))
        await eventually_async(lambda: tower.batches)
        child = os.fork()
        if child == 0:
            async_group_commit.close()
            os._exit(tower.closed)
        assert await asyncio.to_thread(os.waitpid, child, 0) == (child, 0)
        tower.let_go()
        return await mine

    signal.alarm(60)  # a child that hangs would hang everything
    try:
        assert asyncio.run(main()) == "mine"
    finally:
        signal.alarm(0)


def test_a_pause_and_a_thread_are_waited_for_without_standing_still(slow: GroupCommit) -> None:
    seen: list[str] = []
    goes_on = threading.Event()

    def perform(calls: Sequence[Call[Any]]) -> None:
        seen.append("before the pause")
        greenlet_bridge.pause(0.5)
        seen.append("after it")
        calls[0].result = greenlet_bridge.slowly(lambda: str(threading.get_ident()) if goes_on.wait(10) else "the loop stood still")

    async def main() -> str:
        async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
        mine = asyncio.create_task(async_group_commit.run_async(Job("mine")))
        await eventually_async(lambda: seen)
        assert seen == ["before the pause"]
        await eventually_async(lambda: len(seen) == 2)
        goes_on.set()
        return await mine

    assert asyncio.run(main()) not in (str(threading.get_ident()), "the loop stood still")


def test_a_thread_is_had_although_those_of_the_loop_all_wait_for_the_call(slow: GroupCommit) -> None:
    def perform(calls: Sequence[Call[Any]]) -> None:
        for call in calls:
            call.result = greenlet_bridge.slowly(lambda: "done")

    async def main() -> list[str]:
        async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))

        def ask() -> str:
            return asyncio.run_coroutine_threadsafe(async_group_commit.run_async(Job("mine")), loop).result(10)

        return await asyncio.gather(*(loop.run_in_executor(None, ask) for _ in range(2)))

    assert asyncio.run(main()) == ["done", "done"]


@pytest.mark.parametrize("comes_late", [True, False], ids=["that comes when it has ended", "that came just before"])
def test_a_loop_that_ends_leaves_nothing_lying_about_that_a_thread_has_brought(slow: GroupCommit, comes_late: bool) -> None:
    unwanted: list[str] = []
    may_come, has_come = threading.Event(), threading.Event()

    def fetch() -> str:
        may_come.wait(10)
        return "a connection"

    def perform(calls: Sequence[Call[Any]]) -> None:
        calls[0].result = greenlet_bridge.slowly(fetch, unwanted.append)

    class Deaf(asyncio.SelectorEventLoop):
        """Hears what a thread has to say, and ends before it can do anything about it."""

        def call_soon_threadsafe(self, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]
            has_come.set()
            return super().call_soon_threadsafe(*arguments, **options)

    async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
    with closing(Deaf()) as loop:
        mine = loop.create_task(async_group_commit.run_async(Job("mine")))
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        mine.cancel()
        loop.run_until_complete(asyncio.gather(mine, return_exceptions=True))
        if not comes_late:
            may_come.set()
            assert has_come.wait(10)
    may_come.set()
    async_group_commit.close()
    eventually(lambda: unwanted == ["a connection"])


def test_what_the_loop_does_for_others_meanwhile_is_told_apart(tower: Tower, slow: GroupCommit) -> None:
    seen: list[int] = []

    def perform(calls: Sequence[Call[Any]]) -> None:
        tower.perform(calls)
        seen.append(greenlet_bridge.others_ms())

    async def main() -> None:
        async_group_commit = AsyncGroupCommit(lambda: perform, timeout=30, slow=slow)
        tower.holds = True
        mine = asyncio.create_task(async_group_commit.run_async(Job("mine")))
        await eventually_async(lambda: tower.batches)
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        tower.let_go()
        await mine

    asyncio.run(main())
    assert seen[0] >= 49


def test_outside_of_a_greenlet_bridge_everything_waits_as_it_is() -> None:
    assert greenlet_bridge.current() is None
    assert greenlet_bridge.others_ms() == 0
    assert greenlet_bridge.slowly(threading.get_ident) == threading.get_ident()
    greenlet_bridge.pause(0)
