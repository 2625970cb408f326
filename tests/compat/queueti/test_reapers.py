"""The reapers: by hand, and on a schedule that one server of several keeps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from rowq import ManualClock
from rowq.errors import InvalidArgument, MessageNotFound
from rowq.server.compat.queueti.api import CompatApi, Options, reap_if_first
from rowq.server.compat.registry import to_options
from rowq.server.service import Service
from tests.compat.queueti.asking import Topics
from tests.compat.queueti.conftest import Open
from tests.server.support import key
from tests.support.blocking import LoopThread
from tests.support.database import KINDS
from tests.support.patience import eventually


def expire(topics: Topics, clock: ManualClock, *names: str) -> list[str]:
    ids = [topics.send(name) for name in names]
    clock.advance(86_400)
    return ids


def test_c24_the_expiry_reaper_marks_and_deletes_nothing(topics: Topics, clock: ManualClock) -> None:
    first, second = expire(topics, clock, "orders", "invoices")
    young = topics.send("orders")
    assert topics.reap("expiry") == {"expired": 2}
    assert topics.reap("expiry") == {"expired": 0}
    for id in (first, second):
        message = topics.server.engine.insights.get(id)
        assert (message.outcome, message.payload) == ("expired", b"work")
    assert topics.one("orders")["id"] == young


def test_the_expiry_reaper_takes_more_than_one_piece(opened: Open, clock: ManualClock) -> None:
    topics = opened()
    topics.send("orders")
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.send_many("orders", list(range(1_200)), {}))
    clock.advance(86_400)
    assert topics.reap("expiry") == {"expired": 1_201}
    assert topics.reap("delete") == {"deleted": 1_201}


def test_the_delete_reaper_deletes_the_expired_and_nothing_else(topics: Topics, clock: ManualClock) -> None:
    engine = topics.server.engine
    engine.driver.drive(engine.verbs.configure("kept", {"keep": "body"}))
    acked, dead = topics.send("kept"), topics.bury("orders")
    topics.one("kept")
    topics.ack(acked)
    (expired,) = expire(topics, clock, "orders")
    waiting = topics.send("orders")
    assert topics.reap("delete") == {"deleted": 0}, "nobody has marked it yet"
    topics.reap("expiry")
    assert topics.reap("delete") == {"deleted": 1}
    assert topics.reap("delete") == {"deleted": 0}
    with pytest.raises(MessageNotFound, match="there is no message"):
        engine.insights.get(expired)
    assert engine.insights.get(acked).outcome == "acked"
    assert topics.one("orders.dlq")["id"] == dead
    assert topics.one("orders")["id"] == waiting


def test_expired_messages_stay_until_they_are_reaped(topics: Topics, clock: ManualClock) -> None:
    (id,) = expire(topics, clock, "orders")
    topics.reap("expiry")
    clock.advance(366 * 86_400)
    engine = topics.server.engine
    engine.driver.drive(engine.maintenance.run_all())
    assert engine.insights.get(id).outcome == "expired"


def test_a_key_for_some_topics_reaps_nothing(opened: Open, clock: ManualClock) -> None:
    topics = opened(keys=(key("some", "send", "admin", queues=("orders",)), key("all", "admin")))
    some = topics.with_key("rowq_some")
    expire(some, clock, "orders")
    for reaper in ("expiry", "delete"):
        assert some.ask("POST", f"/admin/{reaper}-reaper/run").problem == (403, "forbidden")
        assert topics.ask("POST", f"/admin/{reaper}-reaper/run").problem == (401, "unauthorized")
    assert topics.with_key("rowq_all").reap("expiry") == {"expired": 1}


def test_the_schedule_is_told(opened: Open) -> None:
    assert opened(delete_reaper_schedule="0 2 * * *").ask("GET", "/admin/delete-reaper/schedule").json == {"schedule": "0 2 * * *"}


@pytest.mark.parametrize(
    "options", [{"delete_reaper_schedule": "0 2 * *"}, {"message_ttl": "soon"}, {"visibility_timeout": 0}, {"max_retries": -1}]
)
def test_options_that_are_not_possible_are_told(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=r"\[compat.queueti\]"):
        to_options("queueti", options, "[compat.queueti]")


@contextmanager
def living(loop: LoopThread, *services: Service, **options: str) -> Iterator[None]:
    """The API as a server keeps it alive, once for each server."""

    async def start() -> list[asyncio.Task[None]]:
        return [asyncio.create_task(CompatApi(Options(**options)).live(service)) for service in services]  # type: ignore[arg-type]

    async def stop(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    tasks = loop.run(start())
    try:
        yield
    finally:
        loop.run(stop(tasks))


def reaped(topics: Topics) -> int:
    """How often the reaper found something: each time is a line of the audit."""
    actions = topics.server.engine.insights.actions("orders", 100)
    return sum(event.event == "purged" and event.actor == "queueti-delete-reaper" for event in actions)


def test_the_delete_reaper_comes_when_its_time_comes(opened: Open, loop: LoopThread, clock: ManualClock) -> None:
    topics = opened()

    def has_come(times: int) -> bool:
        clock.advance(60)
        return reaped(topics) == times

    with living(loop, topics.server.service, delete_reaper_schedule="* * * * *"):
        for times in range(1, 3):
            expire(topics, clock, "orders")
            topics.reap("expiry")
            assert eventually(partial(has_come, times))
            assert topics.server.engine.insights.stats("orders").finished == 0


@pytest.mark.parametrize("kind", KINDS)
def test_of_many_servers_one_reaps(opened: Open, loop: LoopThread, clock: ManualClock, kind: str) -> None:
    service = opened(kind).server.service

    async def all_at_once(due: int) -> list[bool]:
        return list(await asyncio.gather(*(reap_if_first(service, holder, due) for holder in ("a", "b", "c"))))

    for _ in range(3):
        assert sorted(loop.run(all_at_once(clock.now()))) == [False, False, True]
        clock.advance(60)


def test_without_a_schedule_it_never_comes(opened: Open, loop: LoopThread) -> None:
    loop.run(CompatApi(Options()).live(opened().server.service))


def test_a_server_refuses_a_schedule_that_never_comes(tmp_path: Path) -> None:
    (tmp_path / "rowq.toml").write_text('[compat.queueti]\ndelete_reaper_schedule = "0 0 30 2 *"\n', encoding="utf-8")
    command = [sys.executable, "-m", "rowq.cli.main", "serve", "--port", "0"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 2
    assert "never comes" in told.stderr
