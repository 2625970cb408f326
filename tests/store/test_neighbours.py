"""Somebody else at the same file: who waits is served in the end, who waits too long is told, and readers never wait."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from rowq import Broker, StoreBusy
from tests.store.conftest import Connect
from tests.support.background import Background


@contextmanager
def somebody_writing(path: Path) -> Iterator[None]:
    """Another program that holds the file for as long as it likes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def test_a_call_waits_for_a_busy_neighbour(broker: Broker, path: Path) -> None:
    with somebody_writing(path):
        sending = Background(lambda: broker.send("q", "x"))
        threading.Event().wait(0.3)
        assert sending.is_running
    assert sending.result()
    assert broker.stats("q").ready == 1


def test_a_call_that_waited_too_long_was_not_written(connect: Connect, path: Path) -> None:
    broker = connect(timeout=0.2)
    with somebody_writing(path), pytest.raises(StoreBusy, match="nothing was written"):
        broker.send("q", "x")
    assert broker.queues() == []
    assert broker.send("q", "y")


def test_those_who_came_meanwhile_are_told_or_served(connect: Connect, path: Path) -> None:
    broker = connect(timeout=1)
    with somebody_writing(path):
        sends = [Background(lambda: broker.send("q", "x")) for _ in range(10)]
        threading.Event().wait(0.2)
    served = 0
    for sending in sends:
        try:
            sending.result()
            served += 1
        except StoreBusy:
            pass
    assert broker.stats("q").ready == served
    assert broker.send("q", "y")


def test_readers_do_not_wait(broker: Broker, path: Path) -> None:
    id = broker.send("q", "x")
    with somebody_writing(path):
        look = Background(lambda: (broker.get(id).payload, broker.stats("q").ready, len(broker.browse("q")), len(list(broker.walk()))))
        assert look.result() == ("x", 1, 1, 1)


def test_a_long_reader_holds_no_writer_up(broker: Broker) -> None:
    broker.send_many("q", range(500))
    walk = broker.walk("q")
    assert next(walk).payload == 0
    for delivery in Background(lambda: broker.receive("q", max=500)).result():
        broker.ack(delivery)
    assert len(list(walk)) == 499, "what was there when the walk began"
    assert broker.stats("q").depth == 0


def test_opening_waits_for_a_busy_neighbour(broker: Broker, connect: Connect, path: Path) -> None:
    with somebody_writing(path):
        opening = Background(lambda: connect().send("q", "x"))
        threading.Event().wait(0.2)
    assert opening.result()


def test_a_walk_that_outlives_its_broker_leaves_no_file_open(broker: Broker, path: Path) -> None:
    """An open file would be in the way of a program that moves or deletes it."""
    broker.send_many("q", range(1_000))
    walk = broker.walk("q")
    next(walk)
    broker.close()
    assert sum(1 for _ in walk) == 999
    assert str(path) not in {file.path for file in psutil.Process().open_files()}
