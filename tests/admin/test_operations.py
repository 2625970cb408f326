"""Who consumes, what runs by itself, what people did, and whether all is well."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rowq import ManualClock
from rowq.server.admin import operations
from rowq.server.admin import request as requests
from rowq.server.admin.context import Checkup
from rowq.server.service import Service
from rowq.spark.ledger import Ledger
from rowq.store.dialect import Finding
from tests.admin.browser import Windows, log_in
from tests.admin.conftest import Served, with_pages
from tests.admin.visiting import Visitor
from tests.server.support import ADMIN, ask, serving
from tests.support.blocking import LoopThread
from tests.support.patience import eventually

HOSTILE = "<script>alert('you')</script>\"' onclick=x 🎉 \x1b[31m" + "ä" * 30
pytestmark = pytest.mark.usefixtures("quick")

WHOLE = ("/streams", "/sweeps", "/health")


@pytest.fixture
def visitor(locked_site: Served) -> Visitor:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    return visitor


def tell(site: Served, method: str, path: str, body: object = None) -> object:
    answer = ask(site.server, method, path, body, secret=ADMIN)
    assert answer.status < 300, answer
    return answer.json if answer.body else None


def send(site: Served, queue: str, count: int = 1) -> None:
    tell(site, "POST", f"/v1/queues/{queue}/messages", {"messages": [{"payload": number} for number in range(count)]})


def receive(site: Served, queue: str, **options: object) -> list[str]:
    found: object = tell(site, "POST", f"/v1/queues/{queue}/deliveries", options)
    assert isinstance(found, dict)
    return [delivery["receipt"] for delivery in found["deliveries"]]


class TestConsumers:
    def test_nobody(self, visitor: Visitor) -> None:
        assert "No consumers now" in visitor.get("/consumers").words

    def test_they_are_told_with_what_they_hold_and_do(self, locked_site: Served, visitor: Visitor) -> None:
        send(locked_site, "emails", 9)
        receipts = receive(locked_site, "emails", max=6, consumer="ada")
        receive(locked_site, "emails", max=2)
        visitor.get("/consumers")
        tell(locked_site, "POST", "/v1/ack", {"receipts": receipts[:5]})
        eventually(lambda: "1/min" in visitor.get("/consumers").words)
        tell(locked_site, "POST", "/v1/queues/emails/consumers", {})
        words = visitor.get("/consumers").words
        assert "ada emails holds messages 1 1/min" in words
        assert "unnamed emails holds messages 2" in words
        assert "emails alive 0" in words

    def test_one_that_is_silent_is_told(self, tmp_path: Path) -> None:
        clock = ManualClock()
        with serving(tmp_path, clock=clock, maintenance=False) as server:
            visitor = Visitor(with_pages(server).url)
            assert ask(server, "POST", "/v1/queues/emails/consumers", {}).status == 201
            assert "emails alive 0 0 0 ms ago" in visitor.get("/consumers").words
            clock.advance(60)
            assert "emails silent 0 0 1 min ago" in visitor.get("/consumers").words

    def test_they_are_chosen_by_queue(self, locked_site: Served, visitor: Visitor) -> None:
        for queue in ("emails", "orders"):
            send(locked_site, queue)
            receive(locked_site, queue, consumer=f"of-{queue}")
        words = visitor.get("/consumers?queue=orders").words
        assert "of-orders" in words and "of-emails" not in words
        assert "No consumers now" in visitor.get("/consumers?queue=nowhere").words

    def test_a_limited_key_sees_those_of_its_queues(self, locked_site: Served) -> None:
        for queue in ("emails", "secret"):
            send(locked_site, queue)
            receive(locked_site, queue, consumer=f"of-{queue}")
        limited = Visitor(locked_site.url)
        limited.log_in("rowq_mailer")
        shown = limited.get("/consumers")
        assert "of-emails" in shown.words and "secret" not in shown.text

    def test_a_name_is_only_text(self, locked_site: Served, visitor: Visitor) -> None:
        send(locked_site, "emails")
        receive(locked_site, "emails", consumer=HOSTILE)
        shown = visitor.get("/consumers")
        assert "<script>alert" not in shown.text and "&lt;script&gt;alert" in shown.text

    def test_they_come_in_pages(self, locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "PAGE", 2)
        send(locked_site, "emails", 5)
        for number in range(5):
            receive(locked_site, "emails", consumer=f"c{number}")
        assert "c4" not in visitor.get("/consumers").words
        assert "c4" in visitor.get("/consumers?page=3").words


class TestStreams:
    @pytest.fixture
    def held(self, locked_site: Served) -> Served:
        """A stream that holds two of five messages."""
        send(locked_site, "orders", 5)
        ledger = Ledger(locked_site.server.engine)
        stream = ledger.claim("to-lake", ["orders"])
        assert ledger.take("to-lake", stream.epoch, 0, 2) == 1
        return locked_site

    def test_none(self, visitor: Visitor) -> None:
        assert "No streams" in visitor.get("/streams").words

    def test_its_lag_is_what_waits_and_what_it_holds(self, held: Served, visitor: Visitor) -> None:
        eventually(lambda: "to-lake orders 0 of 1 1 2 5" in visitor.get("/streams").words)

    def test_it_is_revoked_once_somebody_has_agreed(self, held: Served, visitor: Visitor) -> None:
        shown = visitor.post("/streams/to-lake/revocation")
        assert shown.status == 200 and "2 messages" in shown.words
        assert held.server.engine.insights.stats("orders").leased == 2
        shown = visitor.follow(visitor.post("/streams/to-lake/revocation", {"confirmed": "yes"}))
        assert "to-lake was revoked: 2 messages went back to orders." in shown.words
        assert held.server.engine.insights.stats("orders").ready == 5

    def test_one_that_is_not_there(self, visitor: Visitor) -> None:
        assert visitor.post("/streams/nothing/revocation").status == 404


class TestMaintenance:
    def test_they_are_listed_and_run(self, locked_site: Served, visitor: Visitor) -> None:
        words = visitor.get("/sweeps").words
        assert "due Makes delayed messages available when they are due every 1 s" in words
        send(locked_site, "emails", 3)
        assert "depth: 3 messages." in visitor.follow(visitor.post("/sweeps/depth")).words
        assert "optimize: done." in visitor.follow(visitor.post("/sweeps/optimize")).words
        assert visitor.post("/sweeps/nothing").status == 404

    def test_a_forged_form_runs_nothing(self, visitor: Visitor) -> None:
        assert visitor.post("/sweeps/depth", token="0" * 64).status == 403


class TestActions:
    def test_they_tell_who_did_what(self, locked_site: Served, visitor: Visitor) -> None:
        send(locked_site, "emails")
        tell(locked_site, "POST", "/v1/queues/emails/pause")
        tell(locked_site, "PUT", "/v1/queues/orders", {"lease_ms": 5_000})
        words = visitor.get("/actions").words
        assert "key:admin paused emails" in words and "key:admin signed in" in words
        assert words.index("configured") < words.index("paused emails")
        words = visitor.get("/actions?queue=emails").words
        assert "paused emails" in words and "configured" not in words
        assert "No actions on a queue of that name." in visitor.get("/actions?queue=nowhere").words
        assert visitor.get("/actions?queue=%20%3Cb%3E").status == 400

    def test_a_limited_key_sees_those_about_its_queues(self, locked_site: Served) -> None:
        for queue in ("emails", "secret"):
            send(locked_site, queue)
            tell(locked_site, "POST", f"/v1/queues/{queue}/pause")
        limited = Visitor(locked_site.url)
        limited.log_in("rowq_mailer")
        shown = limited.get("/actions")
        assert "paused emails" in shown.words and "secret" not in shown.text

    def test_they_come_in_pages(self, locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "PAGE", 2)
        for number in range(5):
            send(locked_site, f"q{number}")
            tell(locked_site, "POST", f"/v1/queues/q{number}/pause")
        assert "paused q4" in visitor.get("/actions").words
        assert "paused q0" in visitor.get("/actions?page=3").words and "paused q4" not in visitor.get("/actions?page=3").words


class TestHealth:
    def test_it_tells_what_doctor_says(self, visitor: Visitor) -> None:
        words = visitor.get("/health").words
        assert "None of 7 checks found a problem." in words
        assert "journal mode ok wal" in words and "Worker processes 1" in words

    def test_what_hurts_is_told_here_and_on_the_dashboard(
        self, locked_site: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        findings = [Finding("fine", True, "ok"), Finding("vacuum", False, "held up for an hour", "end the <long> transaction")]
        monkeypatch.setattr(Checkup, "look", lambda *_: _given(findings))
        send(locked_site, "emails")
        shown = visitor.get("/health")
        assert "1 of 2 checks found a problem." in shown.words
        assert "&lt;long&gt;" in shown.text
        eventually(lambda: "vacuum, held up for an hour: end the <long> transaction." in visitor.get("/").words)

    def test_a_large_one_is_examined_while_the_page_is_there(
        self, locked_site: Served, windows: Windows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        is_done = threading.Event()

        def examine() -> list[Finding]:
            assert is_done.wait(60)
            return [Finding("vacuum", True, "all is well", None)]

        monkeypatch.setattr(locked_site.server.engine, "examine", examine)
        monkeypatch.setattr(operations, "_PATIENCE", 0.1)
        page = windows.open(locked_site.url)
        try:
            log_in(page, ADMIN)
            page.goto("/health")
            expect(page.get_by_role("status")).to_contain_text("The checks are running")
        finally:
            is_done.set()
        expect(page.get_by_text("None of 1 checks found a problem.")).to_be_visible()

    def test_a_database_is_not_examined_by_each_look(self, locked_site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        looks: list[int] = []

        def examine() -> list[Finding]:
            looks.append(1)
            return []

        monkeypatch.setattr(locked_site.server.engine, "examine", examine)
        loop = LoopThread()
        try:
            checkup = Checkup(Service(locked_site.server.engine, locked_site.server.service.authenticator))
            for _ in range(5):
                assert loop.run(checkup.look(60, 5)) == []
        finally:
            loop.stop()
        assert len(looks) == 1


async def _given(findings: list[Finding]) -> list[Finding]:
    return findings


@pytest.mark.parametrize("path", WHOLE)
def test_a_page_about_all_queues_says_that_it_is_not_for_a_key_for_some(locked_site: Served, path: str) -> None:
    limited = Visitor(locked_site.url)
    limited.log_in("rowq_mailer")
    shown = limited.get(path)
    assert shown.status == 403 and "This page covers all queues, and the key mailer is for some of them." in shown.words
    assert f'href="{path}"' not in limited.get("/").text
    everything = Visitor(locked_site.url)
    everything.log_in(ADMIN)
    assert f'href="{path}"' in everything.get("/").text


@pytest.mark.parametrize("path", ["/streams/to-lake/revocation", "/sweeps/due"])
def test_and_neither_is_what_is_done_there(locked_site: Served, path: str) -> None:
    limited = Visitor(locked_site.url)
    limited.log_in("rowq_mailer")
    assert limited.post(path, {"confirmed": "yes"}).status == 403


def test_a_limited_key_reads_the_refusal_with_ease(windows: Windows, locked_site: Served) -> None:
    page = windows.open(locked_site.url)
    log_in(page, "rowq_mailer")
    expect(page.get_by_role("link", name="Health")).to_have_count(0)


def test_a_consumer_comes_and_goes_before_ones_eyes(locked_site: Served, admin_page: Page) -> None:
    send(locked_site, "orders", 1)
    admin_page.goto("/consumers")
    expect(admin_page.get_by_text("No consumers now")).to_be_visible()
    receipts = receive(locked_site, "orders", consumer="ada")
    expect(admin_page.get_by_role("row", name="ada")).to_be_visible()
    tell(locked_site, "POST", "/v1/ack", {"receipts": receipts})
    expect(admin_page.get_by_text("No consumers now")).to_be_visible()
