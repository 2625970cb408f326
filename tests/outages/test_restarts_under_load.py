"""A server that is away for a second in the middle of a load: whoever hears of it hears what is documented, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import rowq
from tests.disasters.load import Load
from tests.outages.conftest import OurServer, Start

AWAY = 1.0
DOCUMENTED = {rowq.StoreUnavailable.code, rowq.StoreBusy.code, rowq.OutcomeUnknown.code}


def stop(server: OurServer) -> None:
    server.stop()


def crash(server: OurServer) -> None:
    server.kill()


@pytest.mark.parametrize("end", [stop, crash])
def test_callers_hear_documented_errors_only(start: Start, server: OurServer, url: str, end: Callable[[OurServer], None]) -> None:
    load = Load(start, url)
    load.await_progress()
    end(server)
    threading.Event().wait(AWAY)
    server.start()
    load.await_progress()
    load.finish()
    load.check()
    assert load.failures().keys() <= DOCUMENTED
