"""Plain code that runs in a greenlet on behalf of a task: it sees the task's context, and a cancellation lets it clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from rowq.store.server.greenlet_bridge import finished, run_in_greenlet

NAME: ContextVar[str] = ContextVar("name")


def test_it_gives_what_the_code_returns_and_sees_the_context_of_its_caller() -> None:
    async def called() -> str:
        NAME.set("ada")
        return await run_in_greenlet(NAME.get)

    assert asyncio.run(called()) == "ada"


def test_its_error_is_the_callers() -> None:
    def fail() -> None:
        finished(asyncio.sleep(0))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_in_greenlet(fail))


def test_what_is_no_promise_is_an_answer_already() -> None:
    assert finished(7) == 7
    assert asyncio.run(run_in_greenlet(lambda: finished(7))) == 7


def test_the_loop_goes_on_while_it_waits() -> None:
    async def called() -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(run_in_greenlet(lambda: str(finished(answer))))
        await asyncio.sleep(0)
        answer.set_result("there")
        return await running

    assert asyncio.run(called()) == "there"


def cancelled(code: Callable[[asyncio.Event, asyncio.Event], None], times: int = 1) -> None:
    """Code that says by the first event when it may be cancelled, and that has not ended before the second."""

    async def called() -> None:
        is_there, is_over = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run_in_greenlet(lambda: code(is_there, is_over)))
        await is_there.wait()
        for _ in range(times):
            running.cancel()
            for _ in range(5):  # turns of the loop, in which it would end
                await asyncio.sleep(0)
        assert not running.done()
        is_over.set()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(called())


@pytest.mark.parametrize("times", [1, 3])
def test_a_cancellation_strikes_what_it_waits_for_and_not_the_cleaning_up(times: int) -> None:
    done: list[str] = []

    def code(is_there: asyncio.Event, is_over: asyncio.Event) -> None:
        is_there.set()
        try:
            finished(asyncio.Event().wait())
        except asyncio.CancelledError:
            done.append("cancelled")
            finished(is_over.wait())
            done.append("cleaned up")
            raise

    cancelled(code, times)
    assert done == ["cancelled", "cleaned up"]


def test_what_is_shielded_is_done_and_what_comes_next_is_not() -> None:
    done: list[str] = []

    def code(is_there: asyncio.Event, is_over: asyncio.Event) -> None:
        is_there.set()
        finished(is_over.wait(), shielded=True)
        done.append("shielded")
        finished(asyncio.sleep(0))
        done.append("next")

    cancelled(code)
    assert done == ["shielded"]


def test_a_cancellation_that_came_too_late_is_told_all_the_same() -> None:
    done: list[str] = []

    def code(is_there: asyncio.Event, is_over: asyncio.Event) -> None:
        is_there.set()
        finished(is_over.wait(), shielded=True)
        done.append("all of it")

    cancelled(code)
    assert done == ["all of it"]
