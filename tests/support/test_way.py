"""The way that tests put before a server: slow, standing still, cut, and open again."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.patience import eventually
from tests.support.way import CuttableWay

Ends = tuple[CuttableWay, socket.socket, socket.socket]


@pytest.fixture
def two_ends() -> Iterator[Ends]:
    """A way, who calls, and who is called."""
    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        CuttableWay(target.getsockname()[1]) as way,
        socket.create_connection(("127.0.0.1", way.port)) as near,
    ):
        far, _ = target.accept()
        with far:
            near.settimeout(20)
            far.settimeout(20)
            yield way, near, far


def test_nothing_passes_a_way_that_stands_still(two_ends: Ends) -> None:
    way, near, far = two_ends
    far.settimeout(0.2)
    way.flows.clear()
    near.sendall(b"x")
    with pytest.raises(TimeoutError):
        far.recv(1)
    way.flows.set()
    far.settimeout(20)
    assert far.recv(1) == b"x"


def test_a_slow_way_takes_its_time_for_every_piece(two_ends: Ends) -> None:
    way, near, far = two_ends
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    way.delay, way.piece = 0.1, 1
    near.sendall(b"y")  # whoever waits already has asked for a piece of the old size
    assert far.recv(1) == b"y"
    started = time.monotonic()
    near.sendall(b"abc")
    heard = [far.recv(10) for _ in range(3)]
    assert heard == [b"a", b"b", b"c"]
    assert time.monotonic() - started >= 0.3


def test_a_way_that_was_cut_is_open_for_whoever_comes_anew() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target, CuttableWay(target.getsockname()[1]) as way:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", way.port)) as near:
                far, _ = target.accept()
                with far:
                    eventually(lambda: way.connections == 1)
                    near.settimeout(20)
                    while not way.cut_some(random.Random()):
                        pass
                    assert near.recv(1) == b""
                    eventually(lambda: way.connections == 0)


def test_a_way_stays_open_while_nobody_is_at_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target:
        port = target.getsockname()[1]
    with CuttableWay(port) as way:
        with socket.create_connection(("127.0.0.1", way.port)) as near:
            near.settimeout(20)
            assert near.recv(1) == b""
        with socket.create_server(("127.0.0.1", port)) as target, socket.create_connection(("127.0.0.1", way.port)) as near:
            far, _ = target.accept()
            far.close()
