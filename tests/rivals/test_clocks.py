"""Hosts whose clocks are wrong by an hour agree all the same: the database's clock is what counts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import rowq
from tests.rivals.process import Rival, Start
from tests.support.patience import eventually

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)

HOUR = 3600
SECOND = 1000


@pytest.fixture(params=[HOUR, -HOUR], ids=["fast", "slow"])
def astray(request: pytest.FixtureRequest, start: Start, url: str) -> Iterator[Rival]:
    """Somebody whose clock is an hour off."""
    rival = start("obeying", url, clock_off=request.param)
    rival.await_said("ready")
    yield rival
    rival.finish()


def test_what_is_delayed_comes_at_its_time_whoever_sent_it(astray: Rival, broker: rowq.Broker) -> None:
    broker.send("q", "from here", delay=0.7)
    assert astray.ask("receive", ["q"], {}) == []
    assert [found["payload"] for found in eventually(lambda: astray.ask("receive", ["q"], {}), 3)] == ["from here"]
    astray.ask("send", ["q", "from there"], {"delay": 0.7})
    assert broker.receive("q") == []
    assert [found.payload for found in broker.receive("q", wait=3)] == ["from there"]


def test_a_lease_lasts_as_long_as_it_says_whoever_holds_it(astray: Rival, broker: rowq.Broker) -> None:
    broker.send_many("q", ["one", "two"])
    (here,) = broker.receive("q", lease=HOUR / 2)
    (there,) = astray.ask("receive", ["q"], {"lease": HOUR / 2})
    assert broker.receive("q") == astray.ask("receive", ["q"], {}) == []
    astray.ask("sweep", [], {})
    broker.sweep()
    assert broker.stats("q").leased == 2
    now = time.time() * SECOND
    for until in (here.lease_until, there["lease_until"]):
        assert abs(until - now - HOUR / 2 * SECOND) < 10 * SECOND
    broker.ack(here)
    assert astray.ask("ack", [there["receipt"]], {}) is None


def test_a_lease_that_has_run_out_is_taken_over_whoever_held_it(astray: Rival, broker: rowq.Broker) -> None:
    broker.send("q", "again and again")
    assert len(broker.receive("q", lease=0.5)) == 1
    assert [found["attempt"] for found in eventually(lambda: astray.ask("receive", ["q"], {"lease": 0.5}), 3)] == [2]
    assert [found.attempt for found in broker.receive("q", wait=3)] == [3]


def test_a_ttl_ends_when_it_ends_whoever_looks(astray: Rival, broker: rowq.Broker) -> None:
    broker.send("q", "long", ttl=HOUR / 2)
    astray.ask("sweep", [], {})
    assert [found["payload"] for found in astray.ask("receive", ["q"], {})] == ["long"]
    id = broker.send("q", "short", ttl=0.5)
    astray.ask("send", ["q", "short"], {"ttl": 0.5})
    eventually(lambda: astray.ask("sweep", [], {}) and broker.stats("q").dead == 2, 5)
    assert abs(broker.get(id).sent_at - time.time() * SECOND) < 10 * SECOND


def test_what_they_write_down_is_the_time_of_the_database(astray: Rival, broker: rowq.Broker) -> None:
    id = astray.ask("send", ["q", "when?"], {})
    (event,) = broker.audit(id)
    for moment in (broker.get(id).sent_at, event.at):
        assert abs(moment - time.time() * SECOND) < 10 * SECOND
