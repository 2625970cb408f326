"""What holds when nobody has said anything: the safe choice, each time."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq.errors import InvalidArgument
from rowq.server.api.route import Route
from rowq.server.api.routes import ROUTES
from rowq.server.auth.loopback import is_loopback
from rowq.server.config import Config, check_exposed, load
from rowq.server.http.listening import tls_context
from tests.admin.conftest import with_pages
from tests.admin.visiting import Visitor
from tests.security.world import apis
from tests.server.support import ask, key, serving
from tests.support.server import Server

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"
EVIL = "https://evil.example"
FOREIGN = (
    {"host": "evil.example"},
    {"host": "evil.example:8080"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "localhost", "origin": EVIL},
    {"host": "localhost", "origin": "null"},
    {"host": "localhost", "sec-fetch-site": "cross-site"},
    {"host": "localhost", "sec-fetch-site": "same-site"},
)
"""What a browser says for a page of another site: under a name that was made to lead here, or under ours."""
CLOSED = [route for route in ROUTES if route.right is not None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without keys."""
    with serving(tmp_path_factory.mktemp("open"), compat=apis()) as server:
        yield server


def test_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    said = load({}, {}, folder=tmp_path)
    assert said == Config()
    assert is_loopback(said.host) and is_loopback(said.admin_host) and said.exposed is None and not said.keys


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "queue.example.com", "192.168.0.1"])  # noqa: S104
@pytest.mark.parametrize("flag", ["host", "admin_host"])
def test_it_listens_to_others_with_a_key_alone(tmp_path: Path, flag: str, host: str) -> None:
    exposed = load({flag: host}, {}, folder=tmp_path).exposed
    assert exposed == host
    with pytest.raises(InvalidArgument, match="without a key"):
        check_exposed(exposed, "sqlite:///rowq.db", has_keys=False)
    check_exposed(exposed, "sqlite:///rowq.db", has_keys=True)


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.operation)
def test_without_keys_no_page_of_another_site_reaches_a_route(server: Server, route: Route) -> None:
    path = route.path.format(queue="q", id="x", name="x", stream="x", consumer_id="x", sweep="expired")
    for headers in FOREIGN:
        assert ask(server, route.method, path, {} if route.body else None, headers=headers).problem == (403, "forbidden")


def test_without_keys_no_page_of_another_site_reaches_an_api(server: Server) -> None:
    for api in apis():
        for way in api.ways():
            for headers in FOREIGN:
                path = way.path.format(queue="q", id="x", topic="x")
                assert ask(server, way.method, path, None if way.method == "GET" else {}, headers=headers).status == 403, way.path


@pytest.mark.parametrize("is_open", [True, False])
def test_no_other_site_may_read_an_answer(tmp_path: Path, is_open: bool) -> None:
    """Neither a preflight nor any answer says that it may."""
    with serving(tmp_path, *(() if is_open else (key("admin", "admin"),))) as server:
        preflight = {"origin": EVIL, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
        pages = with_pages(server).url
        for path in ("/v1/queues", "/v1/queues/q/messages", "/v1/ack", "/metrics", "/docs", "/nowhere"):
            for method, headers in (("OPTIONS", preflight), ("GET", {"origin": EVIL}), ("POST", {"origin": EVIL})):
                answer = ask(server, method, path, headers=headers, secret=None if is_open else "rowq_admin")
                assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
        shown = Visitor(pages).get("/", origin=EVIL)
        assert not [name for name in shown.headers if name.startswith("access-control-")]


def test_no_answer_is_cached(server: Server) -> None:
    assert ask(server, "POST", "/v1/queues/q/messages", {"payload": 1}).headers["cache-control"] == "no-store"
    for path in ("/v1/queues", "/v1/queues/q/messages", "/nowhere"):
        assert ask(server, "GET", path).headers["cache-control"] == "no-store"


def test_tls_is_of_this_decade() -> None:
    context = tls_context(str(CERTIFICATE), None, http2=False)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    weak = ("NULL", "RC4", "3DES", "EXPORT", "MD5")
    assert not [cipher["name"] for cipher in context.get_ciphers() if any(word in cipher["name"] for word in weak)]


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o027, 0o640)])
def test_a_file_is_as_private_as_its_owner_says(tmp_path: Path, mask: int, mode: int) -> None:
    """The umask decides, also of the files beside it: there are messages in all of them."""
    before = os.umask(mask)
    try:
        with rowq.connect(f"sqlite:///{tmp_path}/jobs.db") as broker:
            broker.send("q", "salary-of-ada")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert "jobs.db-wal" in modes and set(modes.values()) == {mode}
