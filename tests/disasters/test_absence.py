"""The database is away for longer than anybody waits: calls say so after the timeout, and work again by themselves when it is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import rowq
from rowq import Broker
from rowq.store.postgresql.dialect import Postgresql
from tests.rivals.conftest import with_option
from tests.support.background import Background
from tests.support.life import take
from tests.support.servers import OwnServer, PostgresqlServer
from tests.support.tables import faults_of

pytestmark = [pytest.mark.parametrize("kind", ["postgresql", "mariadb"]), pytest.mark.one_of("kind")]

TIMEOUT = 0.5
IN_TIME = 20
"""Seconds: far more than the timeout, for a busy machine, and less than the one that holds where none is set."""
BY_ITSELF = 60
PATIENT = "timeout=100"


@pytest.fixture
def broker(url: str) -> Iterator[Broker]:
    with rowq.connect(with_option(url, f"timeout={TIMEOUT:g}")) as broker:
        yield broker


def test_calls_say_so_after_the_timeout_and_work_again_by_themselves(server: OwnServer, url: str, broker: Broker) -> None:
    id = broker.send("q", "before")
    delivery = take(broker, lease=600)
    calls: dict[str, Callable[[], object]] = {
        "send": lambda: broker.send("q", "during"),
        "receive": lambda: broker.receive("q"),
        "ack": lambda: broker.ack(delivery),
        "stats": lambda: broker.stats("q"),
        "get": lambda: broker.get(id),
        "configure": lambda: broker.configure("q", lease=60),
    }
    server.stop()
    told: dict[str, str] = {}
    for verb, call in calls.items():
        started = time.monotonic()
        with pytest.raises(rowq.RowqError) as caught:
            call()
        told[verb] = caught.value.code
        assert TIMEOUT / 4 < time.monotonic() - started < IN_TIME, f"{verb} did not keep to the timeout"
    assert told == dict.fromkeys(calls, rowq.StoreUnavailable.code)
    server.start()
    for verb in ("stats", "send", "ack", "configure"):
        calls[verb]()
    assert [message.payload for message in broker.walk("q")] == ["during"]
    assert faults_of(url) == {}


def test_an_ack_that_was_on_its_way_is_not_said_to_be_undone(
    server: OwnServer, url: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL it is a statement that may have been heard; elsewhere only its commit could have done it."""
    monkeypatch.setattr(Postgresql, "settings_max_age_ms", 600_000)
    broker.send_many("q", range(3))
    first, second, third = broker.receive("q", max=3, lease=600)
    broker.ack(first)
    server.stop()
    told = []
    for delivery in (second, third):
        with pytest.raises(rowq.RowqError) as caught:
            broker.ack(delivery)
        told.append(caught.value.code)
    on_its_way = rowq.OutcomeUnknown if isinstance(server, PostgresqlServer) else rowq.StoreUnavailable
    assert told == [on_its_way.code, rowq.StoreUnavailable.code]
    server.start()
    assert broker.ack_many([second, third]) == [rowq.Outcome.DONE] * 2
    assert faults_of(url) == {}


def test_callers_that_come_together_are_all_told_in_time(server: OwnServer, broker: Broker) -> None:
    broker.send("q", "before")
    server.stop()
    started = time.monotonic()
    calls = [Background(lambda: broker.send("q", "during")) for _ in range(8)]
    told = set()
    for call in calls:
        with pytest.raises(rowq.StoreError) as caught:
            call.result(IN_TIME)
        told.add(caught.value.code)
    assert time.monotonic() - started < IN_TIME
    assert told <= {rowq.StoreUnavailable.code, rowq.StoreBusy.code}
    server.start()
    assert broker.send("q", "after")
    assert {message.payload for message in broker.walk("q")} == {"before", "after"}


def test_a_call_that_is_patient_enough_never_hears_of_it(server: OwnServer, url: str) -> None:
    with rowq.connect(with_option(url, PATIENT)) as patient:
        patient.send("q", "before")
        server.stop()
        sending = Background(lambda: patient.send("q", "during"))
        reading = Background(lambda: patient.stats("q"))
        assert sending.is_running
        server.start()
        assert sending.result(BY_ITSELF)
        assert reading.result(BY_ITSELF).depth in (1, 2)
        assert [delivery.payload for delivery in patient.receive("q", max=5)] == ["before", "during"]


def test_a_consumer_that_waits_is_served_after_a_restart(server: OwnServer, url: str) -> None:
    with rowq.connect(with_option(url, PATIENT)) as patient, rowq.connect(url) as other:
        other.send("q", "so that everything is open")
        patient.ack(take(patient))
        waiting = Background(lambda: patient.receive("q", wait=100))
        server.restart()
        other.send("q", "hello again")
        assert [delivery.payload for delivery in waiting.result(BY_ITSELF)] == ["hello again"]


def test_nobody_connects_to_what_is_away(server: OwnServer, url: str) -> None:
    server.stop()
    with pytest.raises(rowq.StoreUnavailable, match="is it running"):
        rowq.connect(url)
    server.start()
    rowq.connect(url).close()


def test_closing_does_not_wait_for_a_database_that_is_away(server: OwnServer, url: str) -> None:
    broker = rowq.connect(with_option(url, PATIENT))
    broker.send("q", 1)
    server.stop()
    started = time.monotonic()
    broker.close()
    assert time.monotonic() - started < IN_TIME
