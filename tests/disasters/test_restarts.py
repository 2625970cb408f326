"""The database is started anew, or crashes, under a running load: the processes go on by themselves, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.disasters.load import Load
from tests.rivals.process import Start
from tests.support.servers import OwnServer

BY_ITSELF = 10
"""Seconds after its return."""


def stop(server: OwnServer) -> None:
    server.stop()


def crash(server: OwnServer) -> None:
    os.kill(server.pid, signal.SIGSTOP)  # it would bear children while they are being counted, and one that is left would write on
    server.kill()


@pytest.mark.parametrize("end", [stop, crash])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_load_survives_the_end_of_its_database(start: Start, server: OwnServer, url: str, end: Callable[[OwnServer], None]) -> None:
    load = Load(start, url)
    load.await_progress()
    for _ in range(2):
        end(server)
        server.start()
        load.await_progress(BY_ITSELF)
    load.finish()
    load.check()
