"""How much happens in a queue, whoever does it; and the lines that are drawn of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.server.admin import rates as module
from rowq.server.admin.rates import DEAD, FAILED, IN, KINDS, OUT, SLOT_MS, SLOTS, History, Rates
from rowq.server.auth.authentication import Authenticator
from rowq.server.service import Service
from rowq.store.meter import Meter
from tests.support.blocking import LoopThread
from tests.support.patience import eventually


class Followed:
    """The rates of a database that two brokers write to: one beside the pages, and one that they do not know."""

    def __init__(self, path: Path, loop: LoopThread) -> None:
        self.clock = ManualClock()
        self._loop = loop
        url = f"sqlite:///{path}/q.db"
        self.here = rowq.connect(url, clock=self.clock, maintenance=False)
        self.there = rowq.connect(url, clock=self.clock, maintenance=False)
        self.here._engine.attach(Meter())
        self.is_watched = True
        self.rates = self._new()

    def again(self) -> Rates:
        """As after a restart."""
        self.rates = self._new()
        return self.look()

    def _new(self) -> Rates:
        return Rates(Service(self.here._engine, Authenticator()), lambda: self.is_watched)

    def look(self, times: int = 2) -> Rates:
        """What happened until now is there with the second look: the first only learns where the audit ends."""
        for _ in range(times):
            self._loop.run(self.rates.look())
        return self.rates

    @contextmanager
    def following(self) -> Iterator[None]:
        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(self.rates.follow())

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        task = self._loop.run(begin())
        try:
            yield
        finally:
            self._loop.run(end())

    def counts(self, queue: str = "q") -> tuple[int, ...]:
        """Of the last hour: sent, done, failed, dead, late."""
        return tuple(sum(counts) for counts in self.look().of(queue).counts)

    def close(self) -> None:
        self.here.close()
        self.there.close()


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    loop = LoopThread()
    followed = Followed(tmp_path, loop)
    yield followed
    followed.close()
    loop.stop()


def work(broker: Broker, queue: str = "q") -> None:
    """Five come, two are done, one fails, one is rejected, one is late."""
    broker.send_many(queue, range(5))
    first, second, third, fourth, _ = broker.receive(queue, max=5, lease=1, consumer="ada")
    broker.ack(first)
    broker.ack(second)
    broker.nack(third)
    broker.reject(fourth)


def let_leases_run_out(followed: Followed) -> None:
    followed.clock.advance(2)
    followed.here.maintain()


@pytest.mark.parametrize("where", ["here", "there"])
def test_what_any_process_does_is_counted(followed: Followed, where: str) -> None:
    followed.look()
    work(getattr(followed, where))
    let_leases_run_out(followed)
    assert followed.counts() == (5, 2, 3, 1, 1)
    assert followed.look().of("q").failures == (5, 3)


def test_nothing_is_counted_twice(followed: Followed) -> None:
    followed.look()
    work(followed.here)
    assert followed.counts() == followed.counts() == (5, 2, 2, 1, 0)


def test_the_last_hour_is_there_after_a_restart(followed: Followed) -> None:
    work(followed.there)
    followed.clock.advance(3_000)
    followed.there.send("q", 1)
    history = followed.again().of("q")
    assert sum(history.counts[IN]) == 6
    followed.clock.advance(1_000)
    assert sum(followed.look().of("q").counts[IN]) == 1
    followed.clock.advance(10_000)
    assert followed.look().of("q").is_quiet


def test_what_was_an_hour_before_a_restart_is_not_read(followed: Followed) -> None:
    work(followed.there)
    followed.clock.advance(3_700)
    assert followed.again().of("q").is_quiet


@pytest.mark.parametrize("where", ["here", "there"])
def test_without_an_audit_the_meter_tells_what_this_server_did(followed: Followed, where: str) -> None:
    followed.here.configure("q", audit=False)
    followed.here.send("q", 0)
    followed.look()
    work(getattr(followed, where))
    assert followed.counts() == ((5, 2, 2, 1, 0) if where == "here" else (0, 0, 0, 0, 0))


def test_an_audit_that_is_switched_off_and_on_counts_nothing_twice(followed: Followed) -> None:
    work(followed.here)
    assert followed.counts()[0] == 5
    followed.here.configure("q", audit=False)
    followed.look()
    followed.here.send("q", 1)
    assert followed.counts()[0] == 6
    followed.here.configure("q", audit=True)
    followed.here.send("q", 1)
    assert followed.counts()[0] == 7
    followed.here.send("q", 1)
    assert followed.counts()[0] == 8


class TestABusyServer:
    """Where more happens than is counted for nobody."""

    @pytest.fixture(autouse=True)
    def busy(self, followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHEAP", 0)
        followed.is_watched = False

    def test_alone_it_goes_by_its_meter(self, followed: Followed) -> None:
        followed.look()
        followed.here.send_many("q", range(20))
        for delivery in followed.here.receive("q", max=20, consumer="c"):
            followed.here.ack(delivery)
        rates = followed.look()
        assert (sum(rates.of("q").counts[IN]), sum(rates.of("q").counts[OUT])) == (20, 20)
        assert not rates.acks_per_minute()  # of which the meter knows nothing: so the audit was not asked
        assert (sum(followed.look().of("q").counts[IN]), sum(rates.total().counts[OUT])) == (20, 20)

    def test_what_others_do_is_counted_all_the_same(self, followed: Followed) -> None:
        followed.look()
        followed.here.send_many("q", range(20))
        followed.there.send_many("q", range(5))
        assert sum(followed.look().of("q").counts[IN]) == 25

    def test_dead_letters_are_counted_whatever_they_died_of(self, followed: Followed) -> None:
        followed.look()
        followed.here.send_many("q", range(3))
        for delivery in followed.here.receive("q", max=3):
            followed.here.reject(delivery)
        assert sum(followed.look().of("q").counts[DEAD]) == 3

    def test_whoever_looks_is_told_who_did_it(self, followed: Followed) -> None:
        followed.look()
        followed.is_watched = True
        followed.here.send("q", 1)
        followed.here.ack(followed.here.receive("q", consumer="c")[0])
        assert ("q", "c") in followed.look().acks_per_minute()


def test_consumers_have_rates_of_their_own(followed: Followed) -> None:
    followed.look()
    work(followed.there)
    assert followed.look().acks_per_minute() == {("q", "ada"): 2 / 5}
    followed.clock.advance(400)
    assert followed.look().acks_per_minute() == {}


def test_a_rate_is_that_of_the_last_minute(followed: Followed) -> None:
    followed.look()
    followed.here.send_many("q", range(120))
    assert followed.look().of("q").came == 2.0
    followed.clock.advance(90)
    assert followed.look().of("q").came == 0.0
    assert followed.look().of("q").error_share is None


def test_another_version_is_told_while_rates_change(followed: Followed) -> None:
    followed.look()
    quiet = followed.look().version
    assert followed.look().version == quiet
    followed.here.send("q", 1)
    busy = followed.look().version
    assert busy > quiet
    assert followed.look().version > busy  # it falls again with time
    followed.clock.advance(1_000)
    calm = followed.look().version
    assert followed.look().version == calm


def test_there_is_a_bound_to_the_queues_that_are_told_apart(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_QUEUES", 2)
    followed.look()
    for queue in ("a", "b", "c"):
        followed.here.send(queue, 1)
    rates = followed.look()
    assert sum(rates.total().counts[IN]) == 3
    assert sum(sum(rates.of(queue).counts[IN]) for queue in ("a", "b", "c")) == 2
    followed.clock.advance(4_000)
    followed.look()
    followed.here.send("d", 1)
    assert sum(followed.look().of("d").counts[IN]) == 1


def test_a_backlog_is_read_up_to_a_bound(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    followed.look()
    followed.here.send_many("q", range(50))
    monkeypatch.setattr(module, "MOST_LINES", 10)
    assert followed.counts()[0] == 10


def test_an_audit_that_begins_anew_is_followed(followed: Followed) -> None:
    work(followed.here)
    followed.look()
    followed.rates._after = followed.rates._end = 1_000_000
    followed.look()
    followed.here.send("q", 1)
    assert followed.counts()[0] > 5


def test_a_database_that_does_not_answer_is_survived_and_told_once(
    followed: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "EVERY", 0)
    monkeypatch.setattr(module, "REST", 0)
    followed.here.send("q", 1)
    with closing(sqlite3.connect(tmp_path / "q.db", isolation_level=None)) as operator:
        operator.execute("ALTER TABLE rowq_audit RENAME TO elsewhere")
        with followed.following():
            eventually(lambda: "the audit cannot be read" in caplog.text)
            operator.execute("ALTER TABLE elsewhere RENAME TO rowq_audit")
            eventually(lambda: not followed.rates.of("q").is_quiet)
    assert caplog.text.count("the audit cannot be read") == 1


def test_some_queues_are_summed_up(followed: Followed) -> None:
    followed.look()
    for queue in ("a", "b", "c"):
        followed.here.send(queue, 1)
    rates = followed.look()
    assert sum(rates.total(["a", "c", "nowhere"]).counts[IN]) == 2
    assert rates.total([]).is_quiet and rates.total(["nowhere"]).is_quiet


class TestHistory:
    def history(self, kind: int = IN, **slots: int) -> History:
        """`s0` is the newest slot that is over."""
        history = History.empty()
        for name, count in slots.items():
            history.counts[kind][-2 - int(name[1:])] = count
        return history

    def test_an_empty_one_has_flat_lines(self) -> None:
        lines = History.empty().lines(720, 120)
        assert [(line.name, line.path, line.count) for line in lines] == [
            ("came", "M0,120 L720,120", 0),
            ("done", "M0,120 L720,120", 0),
            ("failed", "M0,120 L720,120", 0),
        ]

    def test_a_peak_is_at_the_right_place_and_below_the_top(self) -> None:
        came = self.history(s0=60).lines(720, 120, 6)[0]
        assert came.path == "M0,120 L707.8,120 L720,0" and came.count == 60

    @pytest.mark.parametrize(("count", "top"), [(60, 1), (61, 2), (125, 5), (301, 10), (6_000, 100), (1, 0.02), (0, 1)])
    def test_the_axis_ends_at_a_round_number(self, count: int, top: float) -> None:
        assert self.history(s0=count).top(6) == pytest.approx(top)

    def test_it_has_an_hour_and_the_slot_that_is_not_over(self) -> None:
        assert (SLOTS - 1) * SLOT_MS == 3_600_000
        assert len(History.empty().counts) == KINDS

    def test_errors_are_a_share_of_what_ended(self) -> None:
        history = self.history(OUT, s1=3)
        assert history.error_share == 0
        history.counts[FAILED][-1] = 1
        history.counts[DEAD][-1] = 1
        assert history.error_share == 0.25 and history.died == 1
