"""A server with the API of queue-ti open, on each database, whose time is moved by hand and that runs maintenance when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rowq import ManualClock
from rowq.model.access import KnownKey
from rowq.server.auth.authentication import Authenticator
from rowq.server.compat.registry import open_apis, to_options
from tests.compat.queueti.asking import Topics
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server

Open = Callable[..., Topics]


@pytest.fixture
def opened(tmp_path: Path, loop: LoopThread, clock: ManualClock) -> Iterator[Open]:
    """Opens the API in front of a database: `kind` of it, `keys` to it, and what `[compat.queueti]` says."""
    with ExitStack() as stack:

        def open_one(kind: str = "sqlite", keys: tuple[KnownKey, ...] = (), **options: Any) -> Topics:
            apis = open_apis(("queueti",), {"queueti": to_options("queueti", options, "[compat.queueti]")})
            url = new_database(kind, tmp_path).url
            server = Server(loop, url, authenticator=Authenticator(keys), compat=apis, clock=clock, maintenance=False)
            stack.callback(server.stop)
            return Topics(server)

        yield open_one


@pytest.fixture(params=KINDS)
def topics(request: pytest.FixtureRequest, opened: Open) -> Topics:
    return opened(request.param)
