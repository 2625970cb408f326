"""Forq's own routes, as its router lists them: each is there, and those that change anything are for dead letters alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.admin.conftest import Served
from tests.admin.letters import count, kill
from tests.admin.visiting import Shown, Visitor
from tests.admin.working import configure
from tests.server.support import ADMIN

ROUTES = (
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/"),
    ("POST", "/logout"),
    ("GET", "/queue/{queue}/"),
    ("GET", "/queue/{queue}/messages"),
    ("GET", "/queue/{queue}/messages/{messageId}/details"),
    ("DELETE", "/queue/{queue}/messages"),
    ("POST", "/queue/{queue}/messages/requeue"),
    ("DELETE", "/queue/{queue}/messages/{messageId}"),
    ("POST", "/queue/{queue}/messages/requeue/{messageId}"),
)
CHANGES = ROUTES[-4:]
JSON = "application/json"


@pytest.fixture
def visitor(locked_site: Served) -> Visitor:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    return visitor


def ask(visitor: Visitor, method: str, path: str, queue: str, id: str, *, token: str | None = None, **headers: Any) -> Shown:
    where = path.replace("{queue}", queue).replace("{messageId}", id)
    if method == "GET":
        return visitor.get(where, **headers)
    return visitor.delete(where, token=token, **headers) if method == "DELETE" else visitor.post(where, token=token, **headers)


@pytest.mark.parametrize("name", ["emails-dlq", "emails.dlq"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_each_is_there(locked_site: Served, visitor: Visitor, method: str, path: str, name: str) -> None:
    (id,) = kill(locked_site.server, "emails", "x")
    shown = ask(visitor, method, path, name, id)
    assert shown.status in ((200, 303) if method == "GET" else (303,)), shown


class TestForPeople:
    def test_one_goes_back_into_its_queue(self, locked_site: Served, visitor: Visitor) -> None:
        first, _ = kill(locked_site.server, "emails", 1, 2)
        shown = visitor.follow(visitor.post(f"/queue/emails-dlq/messages/requeue/{first}"))
        assert "1 dead letter was redriven." in shown.words
        assert (count(locked_site.server, "emails", "ready"), count(locked_site.server, "emails", "dead")) == (1, 1)
        event = locked_site.server.engine.insights.audit(first)[-1]
        assert (event.event, event.actor) == ("redriven", "key:admin")

    def test_all_go_back(self, locked_site: Served, visitor: Visitor) -> None:
        kill(locked_site.server, "emails", 1, 2, 3)
        assert "3 dead letters were redriven." in visitor.follow(visitor.post("/queue/emails.dlq/messages/requeue")).words
        assert count(locked_site.server, "emails", "ready") == 3

    def test_one_is_deleted_at_once(self, locked_site: Served, visitor: Visitor) -> None:
        first, second = kill(locked_site.server, "emails", 1, 2)
        assert "1 dead letter was deleted." in visitor.follow(visitor.delete(f"/queue/emails-dlq/messages/{first}")).words
        assert [letter.id for letter in locked_site.server.engine.insights.browse("emails.dlq")] == [second]
        event = locked_site.server.engine.insights.audit(first)[-1]
        assert (event.event, event.actor) == ("deleted", "key:admin")

    def test_all_are_deleted_at_once(self, locked_site: Served, visitor: Visitor) -> None:
        kill(locked_site.server, "emails", 1, 2, 3)
        assert "3 dead letters were deleted." in visitor.follow(visitor.delete("/queue/emails-dlq/messages")).words
        assert count(locked_site.server, "emails", "dead") == count(locked_site.server, "emails", "ready") == 0
        event = locked_site.server.engine.insights.actions("emails", 1)[0]
        assert (event.event, event.actor) == ("purged", "key:admin")


class TestForHypermedia:
    """As htmx asks, which is what Forq's own pages do."""

    ASK = """async ([method, url]) => {
        const said = JSON.parse(document.body.getAttribute("hx-headers:inherited"));
        const answer = await fetch(url, {method, headers: {...said, "HX-Request": "true", "Accept": "text/html"}});
        return [answer.status, await answer.text()];
    }"""

    @pytest.mark.parametrize(("method", "path"), CHANGES)
    def test_the_changed_fragment_comes_back(self, admin_page: Page, locked_site: Served, method: str, path: str) -> None:
        first, second = kill(locked_site.server, "emails", 1, 2)
        url = path.replace("{queue}", "emails-dlq").replace("{messageId}", first)
        status, text = admin_page.evaluate(self.ASK, [method, url])
        assert status == 200 and "<html" not in text and first not in text
        assert (second in text) == ("{messageId}" in path)


class TestForPrograms:
    @pytest.mark.parametrize(("method", "path"), CHANGES)
    def test_there_is_nothing_to_read(self, locked_site: Served, visitor: Visitor, method: str, path: str) -> None:
        (id,) = kill(locked_site.server, "emails", 1)
        shown = ask(visitor, method, path, "emails-dlq", id, accept=JSON)
        assert (shown.status, shown.text) == (204, "")
        assert count(locked_site.server, "emails", "dead") == 0


class TestRefusals:
    @pytest.mark.parametrize(("method", "path"), CHANGES)
    @pytest.mark.parametrize("name", ["emails", "dlq", "emails-dlq-2", "emailsdlq"])
    def test_other_queues_than_those_of_dead_letters(
        self, locked_site: Served, visitor: Visitor, method: str, path: str, name: str
    ) -> None:
        server = locked_site.server
        (id,) = kill(server, "emails", 1)
        server.engine.driver.drive(server.engine.verbs.send("emails", 2, {}))
        shown = ask(visitor, method, path, name, id, accept=JSON)
        assert (shown.status, json.loads(shown.text)["code"]) == (400, "bad_request.dlq_only_operation")
        page = ask(visitor, method, path, name, id)
        assert page.status == 400 and "bad_request.dlq_only_operation" in page.words
        assert (count(server, "emails", "ready"), count(server, "emails", "dead")) == (1, 1)

    @pytest.mark.parametrize(("method", "path"), CHANGES)
    def test_dead_letters_of_dead_letters(self, locked_site: Served, visitor: Visitor, method: str, path: str) -> None:
        (id,) = kill(locked_site.server, "emails", 1)
        for name in ("emails-dlq-dlq", "emails.dlq-dlq"):
            assert ask(visitor, method, path, name, id).status == 400
        assert visitor.get("/queue/emails-dlq-dlq/").status == 400
        assert count(locked_site.server, "emails", "dead") == 1

    @pytest.mark.parametrize(("method", "path"), CHANGES[2:])
    def test_a_message_that_is_no_dead_letter_of_that_queue(self, locked_site: Served, visitor: Visitor, method: str, path: str) -> None:
        server = locked_site.server
        (dead,) = kill(server, "orders", 1)
        alive = server.engine.driver.drive(server.engine.verbs.send("emails", 2, {}))
        for id in (dead, alive, "nobody"):
            shown = ask(visitor, method, path, "emails-dlq", id, accept=JSON)
            assert (shown.status, json.loads(shown.text)["code"]) == (404, "not_found.message")
        assert ask(visitor, method, path, "emails-dlq", dead).status == 404
        assert (count(server, "emails", "ready"), count(server, "orders", "dead")) == (1, 1)

    @pytest.mark.parametrize(("method", "path"), CHANGES)
    def test_without_the_token(self, locked_site: Served, visitor: Visitor, method: str, path: str) -> None:
        (id,) = kill(locked_site.server, "emails", 1)
        assert ask(visitor, method, path, "emails-dlq", id, token="").status == 403
        assert ask(visitor, method, path, "emails-dlq", id, origin="https://evil.example").status == 403
        assert count(locked_site.server, "emails", "dead") == 1

    @pytest.mark.parametrize(("method", "path"), CHANGES)
    def test_queues_that_the_key_is_not_for(self, locked_site: Served, method: str, path: str) -> None:
        (id,) = kill(locked_site.server, "orders", 1)
        configure(locked_site.server, "emails")
        mailer = Visitor(locked_site.url)
        mailer.log_in("rowq_mailer")
        assert ask(mailer, method, path, "orders-dlq", id).status == 403
        shown = ask(mailer, method, path, "emails-dlq", id, accept=JSON)
        assert shown.status == (404 if "{messageId}" in path else 204)
        assert count(locked_site.server, "orders", "dead") == 1
