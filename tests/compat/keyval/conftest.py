"""A server with this API alone, on every database, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowq import ManualClock
from rowq.server.compat.registry import open_apis
from tests.compat.keyval.client import Client
from tests.server.support import serving
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path, loop: LoopThread, clock: ManualClock) -> Iterator[Client]:
    """On every database, in a time of its own."""
    url = new_database(request.param, tmp_path).url
    server = Server(loop, url, compat=open_apis(("keyval",), {}), clock=clock, maintenance=False)
    yield Client(server)
    server.stop()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Client]:
    """On SQLite, in real time."""
    with serving(tmp_path, compat=open_apis(("keyval",), {})) as server:
        yield Client(server)
