"""Jobs: what goes on beside the requests, who sees it, and how it ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rowq.server.admin import jobs
from rowq.server.auth.authentication import Authenticator
from rowq.store import operate
from tests.admin.accessibility import assert_accessible
from tests.admin.conftest import Served, with_pages
from tests.admin.letters import count, kill
from tests.admin.visiting import Visitor
from tests.server.support import ADMIN, key, serving
from tests.support.patience import eventually

CRAWL = "0.01"
"""Messages a second: the second one comes after this test."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)


@pytest.fixture
def visitor(locked_site: Served, impatient: None) -> Visitor:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    return visitor


def crawl(visitor: Visitor, queue: str = "emails") -> str:
    """The address of a redrive that has just begun, and takes long."""
    shown = visitor.post(f"/queue/{queue}/dead/redrive", {"all": "yes", "rate": CRAWL, "confirmed": "yes"})
    assert shown.status == 303 and shown.headers["location"].startswith("/jobs/")
    return shown.headers["location"]


def test_one_that_takes_a_moment_goes_straight_back(locked_site: Served) -> None:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    kill(locked_site.server, "emails", *range(3))
    shown = visitor.post("/queue/emails/dead/redrive", {"all": "yes", "confirmed": "yes"})
    assert shown.headers["location"] == "/queue/emails-dlq/"
    assert "3 dead letters were redriven." in visitor.follow(shown).words


def test_progress_is_told(locked_site: Served, visitor: Visitor) -> None:
    kill(locked_site.server, "emails", *range(3))
    url = crawl(visitor)
    eventually(lambda: "1 of 3 redriven" in visitor.get(url).words)
    shown = visitor.get(url)
    assert '<progress id="bar" max="3" value="1">' in shown.text and "by admin" in shown.words
    assert f'href="{url}">Refresh' in shown.text
    assert 'hx-trigger="every 1s"' in shown.text
    assert "1 of 3 redriven so far" in visitor.get("/queue/emails-dlq/").words
    assert "hx-refresh" not in visitor.get(url, fragment=True).headers


def test_it_may_be_cancelled_and_what_was_done_stays_done(locked_site: Served, visitor: Visitor) -> None:
    kill(locked_site.server, "emails", *range(3))
    url = crawl(visitor)
    eventually(lambda: count(locked_site.server, "emails", "ready") == 1)
    shown = visitor.follow(visitor.post(f"{url}/cancellation"))
    assert "cancelled" in shown.words and "Cancelled: 1 of 3 dead letters was redriven." in shown.words
    assert "hx-trigger" not in shown.text
    assert visitor.get(url, fragment=True).headers["hx-refresh"] == "true"
    assert (count(locked_site.server, "emails", "ready"), count(locked_site.server, "emails", "dead")) == (1, 2)
    event = locked_site.server.engine.insights.actions("emails", 1)[0]
    assert (event.event, event.actor, event.detail) == ("dead_redriven", "key:admin", "1 dead letter")
    assert visitor.follow(visitor.post(f"{url}/cancellation")).status == 200


def test_a_purge_that_is_cancelled_is_in_the_audit(locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second piece waits until it was cancelled."""
    monkeypatch.setattr("rowq.engine.bulk.PIECE", 10)
    kill(locked_site.server, "emails", *range(50))
    purge, cancel, is_cancelled = operate.purge, jobs.Jobs.cancel, threading.Event()

    def purge_slowly(*args: Any, **options: Any) -> int:
        if count(locked_site.server, "emails", "dead") < 50:
            assert is_cancelled.wait(20)
        return purge(*args, **options)

    async def cancel_and_tell(all_jobs: jobs.Jobs, job: jobs.Job) -> None:
        job.is_unwanted = True
        is_cancelled.set()
        await cancel(all_jobs, job)

    monkeypatch.setattr(operate, "purge", purge_slowly)
    monkeypatch.setattr(jobs.Jobs, "cancel", cancel_and_tell)
    monkeypatch.setattr(jobs, "_GRACE", 20)
    url = visitor.post("/queue/emails/dead/removal", {"all": "yes", "confirmed": "yes"}).headers["location"]
    eventually(lambda: count(locked_site.server, "emails", "dead") < 50)
    assert "Cancelled:" in visitor.follow(visitor.post(f"{url}/cancellation")).words
    event = locked_site.server.engine.insights.actions("emails", 1)[0]
    gone = 50 - count(locked_site.server, "emails", "dead")
    assert 0 < gone < 50
    assert (event.event, event.actor, event.detail) == ("purged", "key:admin", f"{gone} messages: dead")


def test_cancelling_needs_the_token(locked_site: Served, visitor: Visitor) -> None:
    kill(locked_site.server, "emails", *range(2))
    url = crawl(visitor)
    assert visitor.post(f"{url}/cancellation", token="").status == 403
    assert "running" in visitor.get(url).words


def test_only_who_reaches_the_queue_sees_it(locked_site: Served, visitor: Visitor) -> None:
    kill(locked_site.server, "orders", *range(2))
    kill(locked_site.server, "emails", *range(2))
    orders, emails = crawl(visitor, "orders"), crawl(visitor)
    mailer = Visitor(locked_site.url)
    mailer.log_in("rowq_mailer")
    assert (mailer.get(orders).status, mailer.get(emails).status) == (404, 200)
    assert mailer.post(f"{orders}/cancellation").status == 404
    assert "running" in visitor.get(orders).words
    assert visitor.get("/jobs/nobody").status == 404


def test_it_ends_with_the_key_that_began_it(locked_site: Served, visitor: Visitor) -> None:
    kill(locked_site.server, "emails", *range(50))
    shown = visitor.post("/queue/emails/dead/redrive", {"all": "yes", "rate": "2", "confirmed": "yes"})
    locked_site.server.service.authenticator = Authenticator([key("admin2", "admin")])
    other = Visitor(locked_site.url)
    other.log_in("rowq_admin2")
    eventually(lambda: "the key that started it was revoked" in other.get(shown.headers["location"]).words)
    assert count(locked_site.server, "emails", "dead") > 0


def test_it_ends_with_the_server(tmp_path: Path, impatient: None) -> None:
    with serving(tmp_path) as server:
        visitor = Visitor(with_pages(server).url)
        visitor.get("/dead")
        kill(server, "emails", *range(3))
        crawl(visitor)
        eventually(lambda: count(server, "emails", "ready") == 1)
    with serving(tmp_path) as server:
        assert (count(server, "emails", "ready"), count(server, "emails", "dead")) == (1, 2)
        assert [event.event for event in server.engine.insights.actions("emails", 9)] == ["dead_redriven"]


def test_there_are_not_too_many(locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_RUNNING", 2)
    kill(locked_site.server, "emails", *range(9))
    crawl(visitor)
    crawl(visitor)
    refused = visitor.post("/queue/emails/dead/redrive", {"all": "yes", "rate": CRAWL, "confirmed": "yes"})
    assert refused.status == 429 and "wait for one to end" in refused.words


def test_those_that_ended_are_forgotten_in_their_order(locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT", 1)
    kill(locked_site.server, "emails", *range(9))
    urls = []
    for _ in range(3):
        urls.append(crawl(visitor))
        visitor.post(f"{urls[-1]}/cancellation")
    crawl(visitor)
    assert [visitor.get(url).status for url in urls] == [404, 404, 200]


def begin_slowly(page: Page, rate: str) -> None:
    page.goto("/queue/emails-dlq/")
    page.get_by_text("Redrive with a rate").click()
    page.get_by_label("Messages per second").fill(rate)
    page.get_by_role("button", name="Redrive", exact=True).first.click()
    page.get_by_role("button", name="Redrive all dead letters").click()
    page.wait_for_url("**/jobs/*")


def test_a_bar_moves_while_somebody_looks(admin_page: Page, locked_site: Served, impatient: None) -> None:
    kill(locked_site.server, "emails", *range(500))
    begin_slowly(admin_page, "10")
    bar, cancel = admin_page.locator("progress"), admin_page.get_by_role("button", name="Cancel")
    cancel.focus()
    first = bar.get_attribute("value") or ""
    expect(bar).not_to_have_attribute("value", first)
    second = bar.get_attribute("value") or ""
    expect(bar).not_to_have_attribute("value", second)
    assert int(first) < int(second) < 500
    expect(cancel).to_be_focused()
    assert_accessible(admin_page)
    admin_page.keyboard.press("Enter")
    expect(admin_page.get_by_role("status")).to_contain_text("Cancelled:")
    assert_accessible(admin_page)


def test_the_page_tells_by_itself_how_it_ended(admin_page: Page, locked_site: Served, impatient: None) -> None:
    kill(locked_site.server, "emails", *range(15))
    begin_slowly(admin_page, "10")
    expect(admin_page.get_by_role("status")).to_have_text("15 dead letters were redriven.")
    expect(admin_page.get_by_role("button", name="Cancel")).to_have_count(0)
