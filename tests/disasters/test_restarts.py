"""The database is started anew, or crashes, under a running load: the processes go on by themselves, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.disasters.load import Load
from tests.rivals.process import Start
from tests.support.servers import OwnServer

BY_ITSELF = 60
"""Seconds after its return: a process that has not gone on by then never will."""


def stop(server: OwnServer) -> None:
    server.stop()


def crash(server: OwnServer) -> None:
    os.kill(server.pid, signal.SIGSTOP)  # it would bear children while they are being counted, and one that is left would write on
    server.kill()


@pytest.mark.parametrize("end", [pytest.param(stop, marks=pytest.mark.prove("20 s; a crash, and test_absence.py, stand for it")), crash])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.prove("40 s of restarts; one restart stands for it"))])
def test_a_load_survives_the_end_of_its_database(
    start: Start, server: OwnServer, url: str, end: Callable[[OwnServer], None], times: int
) -> None:
    load = Load(start, url, processes=1 if times == 1 else 2)
    load.await_progress()
    for _ in range(times):
        end(server)
        server.start()
        load.await_progress(BY_ITSELF)
    load.finish()
    load.check()
