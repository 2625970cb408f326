"""Every page with every kind of visitor. What a key for some queues sees of others is told page by page in tests/admin/test_rights.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowq.server.admin.pages import PAGES
from rowq.server.admin.session import COOKIE, new_token
from rowq.server.admin.site import HEADERS
from tests.admin.conftest import with_pages
from tests.admin.letters import kill
from tests.admin.visiting import Shown, Visitor
from tests.security import expected
from tests.security.world import matched
from tests.server.support import ADMIN, ask, key, serving

EXPECTED = matched([f"{page.method} {page.path}" for page in PAGES], expected.PAGES)
CLOSED = {way: said for way, said in EXPECTED.items() if said.right is not None}
STREAMS = {f"{page.method} {page.path}" for page in PAGES if page.streams}
FORM = {"confirmed": "yes", "all": "yes", "state": ["ready"], "name": "lease", "value": "5s", "kind": "json", "payload": "1"}


class Town:
    """One queue with a dead letter, and visitors of every kind."""

    def __init__(self, served: Any) -> None:
        self.served, self.server = served, served.server
        (self.letter,) = kill(self.server, "payroll", "salary-of-ada")
        self.stranger, self.forger = Visitor(served.url), Visitor(served.url)
        self.stranger.get("/login")
        self.forger.get("/login")
        self.forger.cookies[COOKIE] = new_token()
        self.admin, self.gone, self.left = (self.logged_in(name) for name in ("admin", "gone", "left"))
        self.clerk = self.logged_in("clerk")
        assert self.left.post("/logout").status == 303
        (key_of_gone,) = [known for known, _ in self.server.engine.insights.known_keys() if known.name == "gone"]
        assert ask(self.server, "DELETE", f"/v1/api-keys/{key_of_gone.name}", secret=ADMIN).status == 204

    def logged_in(self, name: str) -> Visitor:
        secret = f"rowq_{name}"
        if name == "gone":
            body = {"name": name, "scopes": ["admin"]}
            secret = ask(self.server, "POST", "/v1/api-keys", body, secret=ADMIN).json["secret"]
        visitor = Visitor(self.served.url)
        assert visitor.log_in(secret).status == 303
        return visitor

    def visit(self, visitor: Visitor, way: str) -> Shown:
        method, path = way.split(" ")
        path = path.format(queue="payroll", id=self.letter, stream="x", sweep="expired")
        return visitor.get(path) if method == "GET" else visitor._send(method, path, {**FORM, "id": self.letter}, None, {})

    def state(self) -> list[Any]:
        insights = self.server.engine.insights
        return [insights.queues(), insights.all_settings(), insights.get(self.letter), insights.actions(None, 100)]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with _serving(tmp_path_factory.mktemp("town")) as server:
        yield Town(with_pages(server))


def _serving(folder: Path) -> Any:
    scopes = [key(scope, scope) for scope in ("send", "receive", "metrics")]
    return serving(folder, key("admin", "admin"), key("left", "admin"), key("clerk", "admin", queues=("lobby.*",)), *scopes)


@pytest.mark.parametrize("way", CLOSED)
def test_no_page_is_shown_without_a_valid_session(town: Town, way: str) -> None:
    """Neither a stranger, nor whoever makes up a cookie, has logged out, or has a key that was revoked."""
    before = town.state()
    for visitor in (town.stranger, town.forger, town.left, town.gone):
        shown = town.visit(visitor, way)
        assert (
            (shown.status, shown.headers.get("location", "")[:13]) == (303, "/login?next=%")
            if way.startswith("GET")
            else shown.status == 401
        )
        assert "salary-of-ada" not in shown.text
    assert town.state() == before


@pytest.mark.parametrize("way", [way for way in CLOSED if way not in STREAMS and way != "POST /logout"])
def test_a_key_for_other_queues_is_refused_where_it_has_no_business(town: Town, way: str) -> None:
    before, reach = town.state(), CLOSED[way].reach
    shown = town.visit(town.clerk, way)
    refusals = {"queue": (400, 403, 404), "whole": (403,), "own": (200, 404)}[reach]
    assert shown.status in refusals and "salary-of-ada" not in shown.text, shown
    assert town.state() == before


@pytest.mark.parametrize("way", [way for way in CLOSED if way not in STREAMS])
def test_an_admin_is_let_in(town: Town, tmp_path: Path, way: str) -> None:
    """To look at a page changes nothing."""
    if way.startswith("GET"):
        assert town.visit(town.admin, way).status in (200, 303, 404)
        return
    with _serving(tmp_path) as server:
        found = Town(with_pages(server))
        assert found.visit(found.admin, way).status in (200, 303, 400, 404, 409)


@pytest.mark.parametrize("scope", ["send", "receive", "metrics"])
def test_a_key_of_another_scope_opens_no_session(town: Town, scope: str) -> None:
    visitor = Visitor(town.served.url)
    assert visitor.log_in(f"rowq_{scope}").status == 403
    assert visitor.get("/").headers["location"].startswith("/login")


@pytest.mark.parametrize("way", [way for way in EXPECTED if way not in STREAMS])
def test_every_answer_says_what_a_browser_may_do_with_it(town: Town, way: str) -> None:
    """Whoever asks, and whatever comes of it."""
    for visitor in (town.stranger, town.clerk):
        if way == "POST /logout" and visitor is town.clerk:
            continue
        headers = town.visit(visitor, way).headers
        assert {name: headers.get(name) for name in HEADERS} == HEADERS
    assert "'unsafe" not in HEADERS["content-security-policy"] and "default-src 'none'" in HEADERS["content-security-policy"]
