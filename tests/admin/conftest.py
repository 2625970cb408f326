"""Servers with admin pages, with keys and without, and pages of a browser that must have nothing to complain of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from jinja2 import Environment
from jinja2.bccache import Bucket, BytecodeCache
from playwright.sync_api import Browser, Page

from rowq.server import depths
from rowq.server.admin import events, jobs, operations, rates, rendering, search
from tests.admin.browser import Faults, Windows, chromium, log_in
from tests.admin.visiting import Visitor
from tests.server.support import ADMIN, key, serving
from tests.support.server import Server


@dataclass(frozen=True)
class Served:
    """A server in this process, and where its pages are."""

    server: Server
    url: str


@pytest.fixture
def site(tmp_path: Path, windows: Windows) -> Iterator[Served]:
    """Without keys: whoever comes from this machine is in."""
    with serving(tmp_path) as server:
        yield with_pages(server)
        windows.close()


@pytest.fixture
def locked_site(tmp_path: Path, windows: Windows) -> Iterator[Served]:
    """With keys: `rowq_admin` may do everything, `rowq_worker` may receive, `rowq_mailer` is an admin of `emails` only."""
    with serving(tmp_path, key("admin", "admin"), key("worker", "receive"), key("mailer", "admin", queues=("emails",))) as server:
        yield with_pages(server)
        windows.close()


@pytest.fixture
def server(site: Served) -> Server:
    return site.server


@pytest.fixture
def visitor(site: Served) -> Visitor:
    """Of `site`, ready to send forms."""
    visitor = Visitor(site.url)
    visitor.get("/config")
    return visitor


class Compiled(BytecodeCache):
    """Templates that were compiled before. Each server has its own otherwise, and compiles what it shows: most of the work of a test."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._known:
            bucket.bytecode_from_string(self._known[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._known[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture(scope="package", autouse=True)
def templates() -> Iterator[None]:
    """All servers of this folder share what they compile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "Environment", partial(Environment, bytecode_cache=Compiled()))
        yield


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page waits for what it asked for, however busy the machine is. A test of what it shows meanwhile makes it impatient again."""
    for module, name in ((jobs, "PATIENCE"), (search, "PATIENCE"), (operations, "_PATIENCE"), (depths, "PATIENCE")):
        monkeypatch.setattr(module, name, 20.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens every few seconds happens at once."""
    for module in (rates, depths, events):
        monkeypatch.setattr(module, "EVERY", 0.05)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for the tests of this folder, started by the first that wants it. Others call `asyncio.run`, so it is gone before them."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def faults() -> Iterator[Faults]:
    """What the browser complained of. A test that leaves any has failed, unless it said `faults.allow("404")`."""
    faults = Faults()
    yield faults
    faults.check()


@pytest.fixture
def windows(request: pytest.FixtureRequest, faults: Faults) -> Iterator[Windows]:
    """They close before their server stops, which a live page would complain of."""
    windows = Windows(lambda: request.getfixturevalue("browser"), faults)
    yield windows
    windows.close()


@pytest.fixture
def page(windows: Windows, site: Served) -> Page:
    """Nowhere yet: `page.goto("/")` opens the dashboard of `site`."""
    return windows.open(site.url)


@pytest.fixture
def admin_page(windows: Windows, locked_site: Served) -> Page:
    """Logged in to `locked_site`, on the dashboard."""
    page = windows.open(locked_site.url)
    log_in(page, ADMIN)
    return page


def with_pages(server: Server, port: int = 0) -> Served:
    from rowq.server.admin.site import Site

    site = Site(server.service)
    return Served(server, server.serve_beside(site, site.context.live(), port))
