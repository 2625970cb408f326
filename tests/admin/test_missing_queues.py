"""A queue that does not exist, on every page that takes the name of one: it is told, nothing breaks, and nothing is made by looking."""

from __future__ import annotations

import pytest

from rowq.server import depths
from rowq.server.admin.pages import PAGES, Page
from tests.admin.conftest import Served
from tests.admin.letters import kill
from tests.admin.visiting import Shown, Visitor
from tests.admin.working import send
from tests.server.support import ADMIN
from tests.support.server import Server

OF_A_QUEUE = [page for page in PAGES if "{queue}" in page.path]
MAKES_IT = ("/queue/{queue}/send", "/queue/{queue}/settings")
FORMS: tuple[dict[str, str], ...] = (
    {},
    {"confirmed": "yes", "all": "yes", "state": "ready"},
    {"confirmed": "yes", "one": "x"},
    {"reason": "x", "fingerprint": "y"},
)


def ask(visitor: Visitor, page: Page, queue: str) -> list[Shown]:
    """What it shows, with every form; a job that was begun is looked at."""
    path = page.path.replace("{queue}", queue).replace("{id}", "nowhere")
    if page.method == "GET":
        return [visitor.get(path)]
    shown = [visitor.delete(path)] if page.method == "DELETE" else [visitor.post(path, form) for form in FORMS]
    return shown + [visitor.follow(each) for each in shown if each.status == 303]


@pytest.mark.parametrize("queue", ["emails", "emails-dlq"])
@pytest.mark.parametrize("page", OF_A_QUEUE, ids=lambda page: f"{page.method} {page.path}")
def test_no_page_breaks_and_none_makes_it(server: Server, visitor: Visitor, page: Page, queue: str) -> None:
    for shown in ask(visitor, page, queue):
        assert shown.status < 500, shown
    if page.method == "GET" or page.path not in MAKES_IT:
        assert server.engine.insights.queues() == []


@pytest.mark.parametrize("what", ["pause", "resumption"])
def test_what_is_done_to_it_is_refused_with_the_name_that_may_be_meant(server: Server, visitor: Visitor, what: str) -> None:
    send(server, "emails", 1)
    shown = visitor.post(f"/queue/emials/{what}")
    assert shown.status == 404 and "there is no queue 'emials'" in shown.words and "did you mean 'emails'?" in shown.words


def test_its_page_offers_nothing_that_would_be_refused(visitor: Visitor) -> None:
    shown = visitor.get("/queue/emails/")
    assert "Nothing has been sent to this queue" in shown.words
    assert "/queue/emails/pause" not in shown.text and "/queue/emails/removal" not in shown.text


def test_a_key_for_some_queues_hears_of_no_other(locked_site: Served) -> None:
    send(locked_site.server, "email", 1)
    boss, mailer = Visitor(locked_site.url), Visitor(locked_site.url)
    boss.log_in(ADMIN)
    mailer.log_in("rowq_mailer")
    for path in ("/queue/emails/pause", "/queue/emails/dead/redrive"):
        assert "did you mean 'email'?" in boss.post(path, {"all": "yes"}).words
        shown = mailer.post(path, {"all": "yes"})
        assert shown.status == 404 and "did you mean" not in shown.words
    assert "did you mean" not in mailer.get("/queue/emails-dlq/").words


def test_one_that_was_deleted_since_it_was_counted_takes_no_page_along(
    server: Server, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depths, "EVERY", 3_600.0)
    kill(server, "emails", 1)
    kill(server, "orders", 1)
    assert "emails 1" in visitor.get("/dead").words
    server.engine.driver.drive(server.engine.verbs.delete_queue("emails"))
    shown = visitor.get("/dead")
    assert shown.status == 200 and "orders 1" in shown.words and "emails" not in shown.words
    assert visitor.get("/").status == 200
