"""A key for some queues, on every page there is: of the others it sees nothing and changes nothing. And every form needs its token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowq.server.admin import jobs
from rowq.server.admin.pages import PAGES, Page
from tests.admin.conftest import Served, with_pages
from tests.admin.letters import count, kill
from tests.admin.visiting import Shown, Visitor
from tests.server.support import ask, key, serving

HIDDEN = "payroll"
SECRETS = (HIDDEN, "salary-of-ada", "bank-is-down", "key-of-ada")
CONSENT = {"confirmed": "yes", "all": "yes", "state": ["ready", "dead"], "name": "lease", "value": "5s", "kind": "json", "payload": "1"}
LOOKS = [page for page in PAGES if page.method == "GET" and not page.streams]
DEEDS = [page for page in PAGES if page.method != "GET"]


def named(page: Page) -> str:
    return f"{page.method} {page.path}"


class Town:
    """Two queues with a dead letter and a waiting message each, and a key for one of them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        drive, verbs = served.server.engine.driver.drive, served.server.engine.verbs
        self.hidden = self._fill(HIDDEN, "salary-of-ada", "bank-is-down", "key-of-ada")
        self.own = self._fill("emails", "hello", "no such address", "bob")
        drive(verbs.configure(HIDDEN, {"max_depth": 12_345}))
        self.visitor = Visitor(served.url)

    def state(self) -> list[Any]:
        insights = self.served.server.engine.insights
        told = [(event.event, event.queue) for event in insights.actions(None, 100) if not event.event.startswith("signed")]
        return [insights.queues(), insights.all_settings(), insights.get(self.hidden), told]

    def ask(self, page: Page, queue: str, id: str, token: str | None = None, **headers: str) -> Shown:
        path = page.path.replace("{queue}", queue).replace("{id}", id).replace("{stream}", "x").replace("{sweep}", "expired")
        if page.method == "GET":
            return self.visitor.get(path)
        return self.visitor._send(page.method, path, {**CONSENT, "id": id}, token, headers)

    def _fill(self, queue: str, payload: str, error: str, key: str) -> str:
        (id,) = kill(self.served.server, queue, payload, error=error, key=key)
        self.served.server.engine.driver.drive(self.served.server.engine.verbs.send_many(queue, [payload], {}))
        return id


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with serving(
        tmp_path_factory.mktemp("town"), key("admin", "admin", "send"), key("mailer", "admin", "send", queues=("emails",))
    ) as server:
        town = Town(with_pages(server))
        assert town.visitor.log_in("rowq_mailer").status == 303
        yield town


@pytest.mark.parametrize("page", LOOKS, ids=named)
def test_nothing_of_other_queues_is_shown(town: Town, page: Page) -> None:
    for queue, id in ((HIDDEN, town.hidden), (f"{HIDDEN}-dlq", town.hidden), ("emails", town.hidden), ("emails", town.own)):
        shown = town.ask(page, queue, id)
        named_by_us = queue.startswith(HIDDEN) and "{queue}" in page.path
        assert shown.status in ((400, 403, 404) if named_by_us else (200, 303, 403, 404)), shown
        told = shown.text + str(shown.headers)
        assert not [secret for secret in SECRETS if secret in told and not (named_by_us and secret == HIDDEN)], told


@pytest.mark.parametrize("page", DEEDS, ids=named)
@pytest.mark.parametrize("forged", ["none", "0" * 64])
def test_nothing_happens_without_the_token_of_the_page(town: Town, page: Page, forged: str) -> None:
    before = town.state()
    shown = town.ask(page, "emails", town.own, token=forged.removeprefix("none"))
    assert shown.status == 403 and town.state() == before
    assert town.visitor.get("/").status == 200, "and nobody is logged out"


@pytest.mark.parametrize("page", DEEDS, ids=named)
def test_nothing_of_other_queues_is_changed(town: Town, page: Page) -> None:
    if page.path in ("/login", "/logout"):
        return
    before = town.state()
    for queue in (HIDDEN, f"{HIDDEN}-dlq"):
        assert town.ask(page, queue, town.hidden).status in (400, 403, 404)
    assert town.state() == before
    for queue in ("emails", "emails-dlq"):
        assert town.ask(page, queue, town.hidden).status != 403 or page.of_the_whole
    assert count(town.served.server, HIDDEN, "dead") == count(town.served.server, HIDDEN, "ready") == 1


def test_without_keys_a_form_needs_its_token_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        town = Town(with_pages(server))
        town.visitor.get("/")
        before = town.state()
        for page in DEEDS:
            for forged in ("", "0" * 64):
                assert town.ask(page, "emails", town.own, forged).status == 403
            for evil in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "same-site"}, {"host": "evil.example"}):
                assert town.ask(page, "emails", town.own, None, **evil).status == 403
        assert town.state() == before


def test_what_the_api_refuses_is_refused_here(town: Town) -> None:
    many = [f"x{number}" for number in range(10_001)]
    assert ask(town.served.server, "POST", "/v1/queues/emails/dead/redrive", {"ids": many}, secret="rowq_mailer").status == 400
    shown = town.visitor.post("/queue/emails/dead/redrive", {"id": many, "confirmed": "yes"})
    assert "this is not possible" in town.visitor.follow(shown).words


def test_jobs_of_other_queues_are_not_there(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)
    other = Visitor(town.served.url)
    other.log_in("rowq_admin")
    kill(town.served.server, "payroll-2", *range(9))
    started = other.post("/queue/payroll-2/dead/redrive", {"all": "yes", "rate": "0.01", "confirmed": "yes"})
    job = started.headers["location"]
    assert job.startswith("/jobs/") and HIDDEN in other.get("/").words
    for shown in (town.visitor.get(job), town.visitor.post(f"{job}/cancellation"), town.visitor.get("/")):
        assert HIDDEN not in shown.text
    assert town.visitor.get(job).status == 404 and "running" in other.get(job).words
    assert other.post(f"{job}/cancellation").status == 303
