"""What the chapters on servers measure with: threads that work at the same time, and the cores' time."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchmarks.cores import Cores, cpu_of_server
from benchmarks.together import Crew, Processes, Turning, shares
from tests.support.patience import DEADLINE, eventually


def test_a_crew_works_at_the_same_time_and_adds_up_what_it_did() -> None:
    everybody = threading.Barrier(3)

    def worker() -> int:
        everybody.wait(DEADLINE)
        return 5

    with Crew([worker] * 3) as crew:
        assert [crew.turn().messages for _ in range(2)] == [15, 15]


def test_a_worker_that_fails_fails_the_turn() -> None:
    def broken() -> int:
        raise LookupError("nothing was received")

    with Crew([lambda: 1, broken]) as crew, pytest.raises(LookupError, match="nothing was received"):
        crew.turn()


@asynccontextmanager
async def times(factor: int) -> AsyncIterator[Turning]:
    async def turn(size: float) -> int:
        return factor * int(size)

    yield turn


def test_processes_take_turns_all_or_some_and_add_up_what_they_did() -> None:
    with Processes(f"{__name__}:times", [(2,), (30,)]) as processes:
        assert [processes.turn(1).messages, processes.turn(2, 1).messages] == [32, 60]
        assert processes.cpu() > 0
    assert shares(8, 3) == [3, 3, 2]


def test_a_process_that_fails_fails_the_turn() -> None:
    with Processes(f"{__name__}:times", [(None,)]) as processes, pytest.raises(AssertionError, match="ended before its time"):
        processes.turn(1)


def test_what_ended_processes_of_a_server_have_spent_is_counted() -> None:
    program = f"{sys.executable} -c 'sum(range(5_000_000))'; echo done; read _"
    with subprocess.Popen(["/bin/sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "done\n"
        assert cpu_of_server(server.pid) >= 0.03
        server.communicate("\n")


def test_a_core_that_computes_is_busy() -> None:
    cores = Cores()
    busy = eventually(lambda: (sum(range(100_000)) and max(cores.busy())) or 0)
    assert 0 < busy <= 100
    assert all(0 <= core <= 100 for core in cores.busy())
