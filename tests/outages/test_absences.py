"""A server that is away for longer than anybody wants to wait: an error in time, and everything goes on by itself when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import rowq
from rowq import Broker, Delivery, StoreUnavailable
from tests.outages.address import altered
from tests.outages.conftest import OurServer
from tests.support.background import Background
from tests.support.life import drain, take
from tests.support.patience import eventually

TIMEOUT = 2
LEEWAY = 1.0
WORKS_AGAIN = 5.0
"""Seconds after its return: the longest pause between two tries is two."""


def seconds_until_unavailable(call: Callable[[], Any]) -> float:
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        call()
    assert raised.value.code == "store_unavailable"
    return time.monotonic() - started


def calls_of_every_kind(broker: Broker, delivery: Delivery) -> dict[str, Callable[[], Any]]:
    return {
        "send": lambda: broker.send("q", "while it is away"),
        "receive": lambda: broker.receive("other", wait=20),
        "ack": lambda: broker.ack(delivery),
        "stats": lambda: broker.stats("q"),
        "configure": lambda: broker.configure("q", max_attempts=7),
    }


@pytest.mark.parametrize("by", ["socket", "TCP"])
def test_calls_fail_in_time_and_work_again_by_themselves(server: OurServer, url: str, by: str) -> None:
    where = url if by == "socket" else altered(url)
    with rowq.connect(f"{where}{'&' if '?' in where else '?'}timeout={TIMEOUT}", upkeep=False) as broker:
        broker.send("q", "before")
        delivery = take(broker, lease=60)
        server.stop()
        calls = calls_of_every_kind(broker, delivery)
        running = {name: Background(partial(seconds_until_unavailable, call)) for name, call in calls.items()}
        took = {name: call.result(within=15) for name, call in running.items()}
        assert {name: seconds for name, seconds in took.items() if seconds > TIMEOUT + LEEWAY} == {}
        server.start()
        returned = time.monotonic()
        broker.send("q", "after")
        broker.ack(delivery)
        assert time.monotonic() - returned < WORKS_AGAIN
        assert drain(broker) == ["after"]


def test_a_second_failure_comes_as_soon_as_the_first(server: OurServer, url: str) -> None:
    """Whoever finds no connection left must not wait for the sum of all that failed before."""
    with rowq.connect(url, timeout=1) as broker:
        broker.send("q", "before")
        server.kill()
        assert all(seconds_until_unavailable(lambda: broker.send("q", "while it is away")) < 1 + LEEWAY for _ in range(3))
        server.start()
        assert drain(broker) == ["before"]


def test_many_callers_fail_together(server: OurServer, url: str) -> None:
    """Those who came when one was being tried already are told the same: the database is away, not busy."""
    with rowq.connect(url, timeout=TIMEOUT) as broker:
        broker.send("q", "before")
        server.stop()
        callers = [Background(lambda: seconds_until_unavailable(lambda: broker.send("q", "while it is away"))) for _ in range(30)]
        assert max(caller.result(within=15) for caller in callers) < 2 * TIMEOUT + LEEWAY
        server.start()
        assert drain(broker) == ["before"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_waiting_consumer_waits_through_it_and_gets_the_next_message(server: OurServer, url: str, end: str) -> None:
    with rowq.connect(url) as broker:
        waiting = Background(lambda: broker.receive("q", wait=20))
        eventually(lambda: broker._engine._room.count() == 1)
        {"stop": server.stop, "kill": server.kill}[end]()
        threading.Event().wait(2)
        server.start()
        with rowq.connect(url) as sender:
            id = sender.send("q", "the next one")
        assert [delivery.id for delivery in waiting.result(within=WORKS_AGAIN)] == [id]
