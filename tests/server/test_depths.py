"""How full the queues are: counted seldom, for all who look, and again where somebody has done something."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq import Broker
from rowq.server import depths as module
from rowq.server.depths import EVERY, REST, Counted, Depths


class Seconds:
    """A running time that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """Depths of a broker, how often all queues were counted, and how long that takes."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = Seconds()
        self.depths = Depths(broker._engine, monotonic=self.seconds)
        self.counts = 0
        self.takes = 0.0
        queues = broker._engine.insights.queues

        def count() -> list[rowq.Stats]:
            self.counts += 1
            self.seconds.now += self.takes
            return queues()

        monkeypatch.setattr(broker._engine.insights, "queues", count)

    def look(self) -> Counted:
        return asyncio.run(self.depths.look())

    def ready(self, queue: str = "q") -> int:
        return self.look().stats[queue].ready


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with rowq.connect(f"sqlite:///{tmp_path}/q.db", maintenance=False) as broker:
        yield broker


@pytest.fixture
def watched(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(broker, monkeypatch)


def test_however_many_look_it_is_counted_once_a_second(broker: Broker, watched: Watched) -> None:
    broker.send("q", 1)

    async def look_together() -> None:
        await asyncio.gather(*[watched.depths.look() for _ in range(10)])

    asyncio.run(look_together())
    broker.send("q", 2)
    assert watched.ready() == 1 and watched.counts == 1
    watched.seconds.now += EVERY
    assert watched.ready() == 2 and watched.counts == 2


def test_a_count_that_takes_long_is_made_seldom(broker: Broker, watched: Watched) -> None:
    broker.send("q", 1)
    watched.takes = 3.0
    watched.look()
    watched.seconds.now += REST * 3.0 - 3.1
    watched.look()
    assert watched.counts == 1
    watched.seconds.now += 0.2
    watched.look()
    assert watched.counts == 2


def test_its_age_is_told(broker: Broker, watched: Watched) -> None:
    watched.takes = 2.0
    assert watched.look().age_ms == 2_000
    watched.seconds.now += 12
    assert watched.look().age_ms == 14_000


def test_nobody_waits_long_for_it(broker: Broker, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first count nothing is known, and the page says so."""
    broker.send("q", 1)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    may_go_on, count = threading.Event(), broker._engine.insights.queues

    def wait() -> list[rowq.Stats]:
        may_go_on.wait(10)
        return count()

    monkeypatch.setattr(broker._engine.insights, "queues", wait)

    async def look() -> tuple[Counted, Counted]:
        before = await watched.depths.look()
        may_go_on.set()
        await watched.depths.refresh(0, 10)
        return before, await watched.depths.look()

    before, after = asyncio.run(look())
    assert (before.age_ms, before.stats) == (None, {})
    assert after.stats["q"].ready == 1


def test_what_somebody_changed_is_counted_at_once_and_alone(broker: Broker, watched: Watched) -> None:
    broker.send("q", 1)
    broker.send("other", 1)
    watched.look()
    broker.send("q", 2)
    broker.send("other", 2)
    watched.depths.stale("q")
    found = watched.look().stats
    assert (found["q"].ready, found["other"].ready, watched.counts) == (2, 1, 1)
    broker.purge("q")
    broker.delete_queue("q")
    watched.depths.stale("q")
    watched.seconds.now += 0.001
    assert list(watched.look().stats) == ["other"]


def test_another_version_means_another_count(broker: Broker, watched: Watched) -> None:
    watched.look()
    version = watched.depths.version
    watched.seconds.now += 1
    watched.look()
    assert watched.depths.version == version
    broker.send("q", 1)
    watched.seconds.now += 1
    watched.look()
    assert watched.depths.version > version


def test_only_what_somebody_reaches_is_told(broker: Broker, watched: Watched) -> None:
    for queue in ("b", "a", "c"):
        broker.send(queue, 1)
    found = asyncio.run(watched.depths.look(lambda queue: queue != "b"))
    assert list(found.stats) == ["a", "c"]


def test_limits_follow_the_settings(broker: Broker, watched: Watched) -> None:
    broker.configure("q", max_depth=5)
    broker.send("free", 1)
    assert watched.look().limits == {"q": 5}
    broker.configure("q", max_depth=7)
    watched.seconds.now += 1
    assert watched.look().limits == {"q": 7}


def test_a_database_that_does_not_answer_is_survived_and_told_once(
    broker: Broker, watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("q", 1)
    watched.look()

    def fail() -> list[rowq.Stats]:
        raise rowq.StoreUnavailable("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(broker._engine.insights, "queues", fail)
        for _ in range(3):
            watched.seconds.now += 1
            assert watched.ready() == 1
    assert caplog.text.count("cannot be read") == 1
    broker.send("q", 2)
    watched.seconds.now += 1
    assert watched.ready() == 2
