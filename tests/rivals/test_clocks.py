"""Hosts whose clocks are wrong by an hour agree all the same: the database's clock is what counts."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from tests.rivals.process import Rival, starting
from tests.support.patience import eventually
from tests.support.servers import shared_mariadb, shared_postgresql

HOUR = 3600
SECOND = 1000
ABOUT = 100 * SECOND
"""Far less than an hour, and longer than a busy machine takes from one line to the next."""
SPAN = 0.5
"""Seconds of delays, leases and lives. Whether they have passed is measured here, from before a call until after another one."""

_queues = (f"q{number}" for number in itertools.count())


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """One for all of these tests, each of which has a queue of its own: so one process with a wrong clock is enough."""
    server = shared_postgresql() if request.param == "postgresql" else shared_mariadb()
    name = f"rowq_clocks_{secrets.token_hex(4)}"
    server.create_database(name)
    rowq.migrate(server.url(name))
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(scope="module", params=[HOUR, -HOUR], ids=["fast", "slow"])
def astray(request: pytest.FixtureRequest, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rival]:
    """Somebody whose clock is an hour off."""
    folder: Path = tmp_path_factory.mktemp("astray")
    with starting(folder, "tests.rivals") as start:
        rival = start("obeying", url, "alone", clock_off=request.param)
        rival.await_said("ready")
        yield rival
        rival.finish()


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def q() -> str:
    return next(_queues)


def comes(receive: Callable[[], Any]) -> tuple[Any, float]:
    """What comes, once something does, and when."""
    (found,) = eventually(receive)
    return found, time.monotonic()


def test_a_delayed_message_is_due_at_its_time_from_every_host(astray: Rival, broker: rowq.Broker, q: str) -> None:
    before = time.monotonic()
    broker.send(q, "from here", delay=SPAN)
    found, at = comes(lambda: astray.ask("receive", [q], {}))
    assert found["payload"] == "from here"
    assert at - before >= SPAN
    before = time.monotonic()
    astray.ask("send", [q, "from there"], {"delay": SPAN})
    found, at = comes(lambda: broker.receive(q))
    assert found.payload == "from there"
    assert at - before >= SPAN


def test_a_lease_lasts_as_long_as_it_says_on_every_host(astray: Rival, broker: rowq.Broker, q: str) -> None:
    broker.send_many(q, ["one", "two"])
    (here,) = broker.receive(q, lease=HOUR / 2)
    (there,) = astray.ask("receive", [q], {"lease": HOUR / 2})
    assert broker.receive(q) == astray.ask("receive", [q], {}) == []
    astray.ask("maintain", [], {})
    broker.maintain()
    assert broker.stats(q).leased == 2
    now = time.time() * SECOND
    for until in (here.lease_until, there["lease_until"]):
        assert abs(until - now - HOUR / 2 * SECOND) < ABOUT
    broker.ack(here)
    assert astray.ask("ack", [there["receipt"]], {}) is None


def test_an_expired_lease_is_taken_over_from_every_host(astray: Rival, broker: rowq.Broker, q: str) -> None:
    """An answer that took too long for so short a lease is not given, so each of them asks until one comes."""
    broker.send(q, "again and again")
    before = time.monotonic()
    first, _ = comes(lambda: broker.receive(q, lease=SPAN))
    second, at = comes(lambda: astray.ask("receive", [q], {"lease": SPAN}))
    assert second["attempt"] > first.attempt
    assert at - before >= SPAN
    third, _ = comes(lambda: broker.receive(q))
    assert third.attempt > second["attempt"]
    assert abs(third.lease_until - second["lease_until"]) < ABOUT


def test_a_ttl_ends_when_it_ends_whoever_looks(astray: Rival, broker: rowq.Broker, q: str) -> None:
    broker.send(q, "long", ttl=HOUR / 2)
    astray.ask("maintain", [], {})
    assert [found["payload"] for found in astray.ask("receive", [q], {})] == ["long"]
    id = broker.send(q, "short", ttl=SPAN)
    astray.ask("send", [q, "short"], {"ttl": SPAN})
    eventually(lambda: astray.ask("maintain", [], {}) and broker.stats(q).dead == 2)
    assert abs(broker.get(id).sent_at - time.time() * SECOND) < ABOUT


def test_what_they_write_down_is_the_time_of_the_database(astray: Rival, broker: rowq.Broker, q: str) -> None:
    id = astray.ask("send", [q, "when?"], {})
    (event,) = broker.audit(id)
    for moment in (broker.get(id).sent_at, event.at):
        assert abs(moment - time.time() * SECOND) < ABOUT
