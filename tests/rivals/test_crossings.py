"""Two that lock the same rows in opposite order: the database ends one of them, and nobody is told of it who could not help it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

import rowq
from tests.rivals.application import own_connection
from tests.rivals.draining import drain_all
from tests.rivals.process import Start
from tests.rivals.watching import watched
from tests.support.background import Background
from tests.support.tables import faults_of

ON_SERVERS = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)


@ON_SERVERS
def test_processes_that_take_rows_in_opposite_order_never_hear_of_a_deadlock(start: Start, url: str) -> None:
    never_hear_of_a_deadlock(start, url, processes=1, deeds=25)


@pytest.mark.prove("8 processes, 30 s; test_processes_that_take_rows_in_opposite_order_never_hear_of_a_deadlock stands for it")
@ON_SERVERS
def test_many_processes_that_take_rows_in_opposite_order_never_hear_of_a_deadlock(start: Start, url: str) -> None:
    never_hear_of_a_deadlock(start, url, processes=2, deeds=60)


def never_hear_of_a_deadlock(start: Start, url: str, processes: int, deeds: int) -> None:
    with rowq.connect(url) as broker, watched(url):
        for queue in ("q", "r"):
            broker.configure(queue, max_attempts=0, backoff=[])
        rivals = [start("crossing", url, f"{order}-{number}", order) for order in ("forward", "backward") for number in range(processes)]
        for rival in rivals:
            rival.await_said("did", deeds)
        for rival in rivals:
            rival.finish()
        for queue in ("q", "r"):
            drain_all(broker, queue)


@ON_SERVERS
def test_of_two_applications_that_cross_one_is_told_and_the_other_goes_on(broker: rowq.Broker, url: str) -> None:
    broker.configure("q", lease=60)
    with closing(own_connection(url)) as one, closing(own_connection(url)) as other:
        broker.within(one).send("q", "one", key="a")
        broker.within(other).send("q", "other", key="b")

        def ends_well(connection: Any, payload: str, key: str) -> bool:
            """Whoever is told that it was in the way begins anew."""
            try:
                broker.within(connection).send("q", payload, key=key)
            except rowq.StoreBusy:
                connection.rollback()
                return False
            connection.commit()
            return True

        calls = {"one": Background(lambda: ends_well(one, "one", "b")), "other": Background(lambda: ends_well(other, "other", "a"))}
        (winner,) = [name for name, call in calls.items() if call.result(60)]
    assert {message.key: message.payload for message in broker.walk("q")} == {"a": winner, "b": winner}
    assert faults_of(url) == {}
