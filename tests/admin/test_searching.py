"""Searches that take longer than a page waits: they go on, are not begun twice, and end with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rowq.errors import InvalidArgument, ServerUnavailable
from rowq.server.admin import search
from rowq.server.admin.search import Searches
from tests.support.blocking import LoopThread
from tests.support.patience import eventually_async


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PATIENCE", 0)


@asynccontextmanager
async def lasting() -> AsyncIterator[tuple[Searches, asyncio.Event, Callable[[], Coroutine[Any, Any, str]]]]:
    """Searches, and one that finds something once the event is set."""
    searches, is_there = Searches(), asyncio.Event()

    async def look() -> str:
        await is_there.wait()
        return "needle"

    yield searches, is_there, look
    searches.end()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = LoopThread()
    try:
        loop.run(test())
    finally:
        loop.stop()


def test_the_same_question_goes_on_with_the_same_search() -> None:
    async def test() -> None:
        async with lasting() as (searches, is_there, look):
            assert await searches.find("ada", "/a", look) is None
            assert await searches.find("ada", "/a", look) is None
            is_there.set()
            await asyncio.wait(searches._tasks.values())
            assert await searches.find("ada", "/a", look) == "needle"
            is_there.clear()
            assert await searches.find("ada", "/a", look) is None  # what was found is shown once

    run(test)


def test_two_go_on_at_a_time_whoever_asks() -> None:
    async def test() -> None:
        async with lasting() as (searches, is_there, look):
            assert await searches.find("ada", "/a", look) is None
            assert await searches.find("bob", "/a", look) is None
            assert await searches.find("ada", "/b", look) is None
            assert len(searches._tasks) == 2
            is_there.set()
            await asyncio.wait(searches._tasks.values())
            is_there.clear()
            assert await searches.find("ada", "/b", look) is None
            assert len(searches._tasks) == 3

    run(test)


def test_one_that_fails_tells_who_asks_again() -> None:
    async def test() -> None:
        async with lasting() as (searches, is_there, look):

            async def fail() -> str:
                await look()
                raise InvalidArgument("no cursor")

            assert await searches.find(None, "/a", fail) is None
            is_there.set()
            await asyncio.wait(searches._tasks.values())
            with pytest.raises(InvalidArgument, match="no cursor"):
                await searches.find(None, "/a", fail)

    run(test)


def test_what_nobody_asks_for_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_KEPT", 0)

    async def test() -> None:
        async with lasting() as (searches, is_there, look):
            assert await searches.find("ada", "/a", look) is None
            is_there.set()
            await eventually_async(lambda: not searches._tasks)
            is_there.clear()
            assert await searches.find("ada", "/a", look) is None

    run(test)


def test_they_end_with_the_server() -> None:
    async def test() -> None:
        async with lasting() as (searches, _, look):
            assert await searches.find("ada", "/a", look) is None
            searches.end()
            await asyncio.wait(searches._tasks.values())
            with pytest.raises(ServerUnavailable):
                await searches.find("ada", "/a", look)

    run(test)
