"""A process that is stopped in the middle of a receive, and continued long after, is not told that it holds what is another's by now."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq.clock import running
from tests.disasters.conftest import Begin
from tests.disasters.proxy import CommitProxy, Mood
from tests.rivals.draining import drain_all
from tests.rivals.process import Rival, Start
from tests.support.life import take
from tests.support.patience import eventually
from tests.support.servers import fresh
from tests.support.tables import faults_of

pytestmark = pytest.mark.one_of("kind")
ON_SERVERS = pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
LEASE = 0.5


@pytest.fixture
def rival(start: Start, proxied_url: str) -> Rival:
    rival = start("obeying", proxied_url, "alone", package="tests.rivals")
    rival.await_said("ready")
    return rival


@pytest.fixture
def other(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


def stop_amid_a_receive(rival: Rival, proxy: CommitProxy, lease: float) -> None:
    """The lease is written, and the answer on its way."""
    rival.ask("send", ["other", "so that everything is open"], {})
    proxy.moods.append(Mood.HOLD)
    rival.tell("receive", ["q"], {"lease": lease})
    assert proxy.holds.wait(60)
    rival.signal(signal.SIGSTOP)
    proxy.let_go.set()


@ON_SERVERS
def test_an_expired_lease_is_never_given_to_the_caller(rival: Rival, proxy: CommitProxy, other: rowq.Broker, url: str) -> None:
    other.send("q", "work")
    stop_amid_a_receive(rival, proxy, lease=1)
    answers = len(rival.said("answer"))
    delivery = take(other, wait=60, lease=600)
    assert delivery.attempt == 2
    rival.signal(signal.SIGCONT)
    (given,) = rival.await_said("answer", answers + 1)[-1]
    assert given == []
    other.ack(delivery)
    assert rival.ask("receive", ["q"], {}) == []
    rival.finish()
    assert faults_of(url) == {}


@ON_SERVERS
def test_what_has_grown_too_old_is_released_and_counts_as_never_delivered(url: str, other: rowq.Broker) -> None:
    """An answer that took over a quarter of its lease is not given, since nobody knows how long the rest will take."""
    other.send("q", "work")
    with rowq.connect(url, maintenance=False) as broker:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rowq.engine.group_commit.running", lambda: running() + 26)
            assert broker.receive("q", lease=100) == []
        assert take(other, wait=60).attempt == 1


@pytest.mark.prove("6 s of standing still; test_what_has_grown_too_old_is_released_and_counts_as_never_delivered moves the clock instead")
@ON_SERVERS
def test_what_a_stopped_process_got_too_late_is_released(rival: Rival, proxy: CommitProxy, other: rowq.Broker) -> None:
    other.send("q", "work")
    stop_amid_a_receive(rival, proxy, lease=24)
    answers = len(rival.said("answer"))
    (leased,) = other.browse("q", state="leased")
    eventually(lambda: other._engine.clock.now() > (leased.lease_until or 0) - 17_500)
    rival.signal(signal.SIGCONT)
    (given,) = rival.await_said("answer", answers + 1)[-1]
    assert given == []
    assert take(other, wait=10).attempt == 1
    rival.finish()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize(
    ("stops", "messages"),
    [(1, 5_000), pytest.param(6, 80_000, marks=pytest.mark.prove("80,000 messages, 60 s; one stop stands for it"))],
    ids=["once", "often"],
)
def test_consumers_that_are_stopped_and_continued_never_settle_what_others_hold(
    start: Start, kind: str, tmp_path: Path, begin: Begin, stops: int, messages: int
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if kind == "sqlite" else fresh(begin(kind))
    choose = random.Random("stops")
    with rowq.connect(url) as broker:
        broker.configure("q", max_attempts=0)
        sent = broker.send_many("q", range(messages))
        rivals = [
            start("consuming", url, f"consumer-{number}", 3, LEASE, package="tests.rivals") for number in range(2 if stops == 1 else 3)
        ]
        for rival in rivals:
            rival.await_said("acked", 5)
        for _ in range(stops):
            stopped = choose.choice(rivals)
            stopped.signal(signal.SIGSTOP)
            until = broker._engine.clock.now() + 1000 * LEASE  # what it holds now has run out by then
            eventually(lambda: broker._engine.clock.now() > until)  # noqa: B023
            stopped.signal(signal.SIGCONT)
        for rival in rivals:
            rival.finish()
        drained = drain_all(broker)
    acked = Counter(id for rival in rivals for (acks,) in rival.said("acked") for id, _ in acks)
    got = Counter((id, attempt) for rival in rivals for id, attempt in rival.said("got"))
    assert max(got.values()) == 1, "two held the same delivery"
    assert max(acked.values()) == 1, "acked twice"
    assert set(sent) - acked.keys() - {delivery.id for delivery in drained} == set()
    assert faults_of(url) == {}
