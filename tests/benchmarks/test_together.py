"""What the chapters on servers measure with: threads that work at the same time, and the cores' time."""

from __future__ import annotations

import threading

import pytest

from benchmarks.cores import Cores
from benchmarks.together import Crew
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


def test_a_core_that_computes_is_busy() -> None:
    cores = Cores()
    busy = eventually(lambda: (sum(range(100_000)) and max(cores.busy())) or 0)
    assert 0 < busy <= 100
    assert all(0 <= core <= 100 for core in cores.busy())
