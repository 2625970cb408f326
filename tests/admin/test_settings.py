"""Settings on pages: where each value comes from, changed in place, and obeyed at once; and those of all queues in one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Nack
from rowq.model.queue import SETTINGS, Settings
from rowq.model.retry import Delays
from tests.admin.browser import Faults
from tests.admin.conftest import Served, with_pages
from tests.admin.visiting import Visitor
from tests.admin.working import configure, receive, send, settle
from tests.server.support import ask, serving
from tests.support.background import Background
from tests.support.server import Server

URL = "/queue/emails/settings"


def row(visitor: Visitor, name: str, url: str = URL) -> str:
    """What stands in the row of a setting."""
    text = visitor.get(url).text
    return text.partition(f'<div class="setting" id="{name}">')[2].partition('<div class="setting"')[0]


class TestOfOneQueue:
    def test_every_setting_is_there(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", lease=45)
        text = visitor.get(URL).text
        for name in SETTINGS:
            assert f'id="{name}"' in text and f'for="value-{name}"' in text, name
        assert all(setting.help.split("'")[0] in text for setting in SETTINGS.values())

    def test_where_each_value_comes_from(self, tmp_path: Path) -> None:
        with serving(tmp_path, defaults=Settings(max_attempts=7)) as server:
            visitor = Visitor(with_pages(server).url)
            configure(server, "emails", lease=45)
            assert (
                'value="45s"' in row(visitor, "lease")
                and ">this queue<" in row(visitor, "lease")
                and "reset to 30s" in row(visitor, "lease")
            )
            assert 'value="7"' in row(visitor, "max_attempts") and ">server<" in row(visitor, "max_attempts")
            assert 'value="7d"' in row(visitor, "retention") and ">default<" in row(visitor, "retention")
            assert ">server<" in visitor.get("/config").text

    @pytest.mark.parametrize(
        ("name", "typed", "field", "value"),
        [
            ("lease", "1m", "lease_ms", 60_000),
            ("max_attempts", "0", "max_attempts", 0),
            ("backoff", "1s, 5s", "backoff", Delays((1000, 5000))),
            ("keep", "none", "keep", "none"),
            ("audit", "false", "audit", False),
            ("schema", '{"type": "object"}', "schema", {"type": "object"}),
            ("dlq_ttl", "7d", "dlq_ttl_ms", 604_800_000),
        ],
    )
    def test_a_change_holds_and_can_be_taken_back(
        self, server: Server, visitor: Visitor, name: str, typed: str, field: str, value: object
    ) -> None:
        answer = visitor.post(URL, {"name": name, "value": typed})
        assert answer.headers["location"] == f"{URL}#{name}"
        assert f"{name} is" in visitor.get(URL).words
        assert getattr(server.engine.insights.settings("emails"), field) == value
        assert ">this queue<" in row(visitor, name)
        assert "reset to the default" in visitor.follow(visitor.post(URL, {"name": name, "default": "yes"})).words
        assert getattr(server.engine.insights.settings("emails"), field) is None and ">this queue<" not in row(visitor, name)

    @pytest.mark.parametrize(
        ("name", "typed"),
        [
            ("lease", "soon"),
            ("lease", "0"),
            ("max_attempts", "-1"),
            ("max_attempts", "many"),
            ("backoff", "<b>"),
            ("max_payload_bytes", "0"),
            ("schema", "{"),
            ("keep", "everything"),
            ("retention", "9999d"),
        ],
    )
    def test_what_is_wrong_stands_at_its_field(self, server: Server, visitor: Visitor, name: str, typed: str) -> None:
        configure(server, "emails", lease=45)
        shown = visitor.post(URL, {"name": name, "value": typed})
        assert shown.status == 400 and f'id="value-{name}-wrong"' in shown.text and "<b>" not in shown.text
        assert server.engine.insights.settings("emails") == Settings(lease_ms=45_000)

    def test_one_that_does_not_exist(self, visitor: Visitor) -> None:
        assert visitor.post(URL, {"name": "colour", "value": "red"}).status == 400
        assert visitor.get("/queue/emails-dlq/settings").status == 400

    def test_another_change_meanwhile_stays(self, server: Server, visitor: Visitor) -> None:
        """The page was opened before somebody else has changed something, and saves only its own."""
        visitor.get(URL)
        configure(server, "emails", max_attempts=9)
        visitor.post(URL, {"name": "lease", "value": "45s"})
        assert server.engine.insights.settings("emails") == Settings(lease_ms=45_000, max_attempts=9)


class TestConfig:
    def test_all_queues_with_what_they_set(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", lease=45, keep="none")
        send(server, "orders", 1)
        shown = visitor.get("/config")
        assert "emails lease 45s not 30s keep none" in shown.words and "orders only defaults" in shown.words
        assert 'href="/queue/emails/settings#lease"' in shown.text
        assert "orders" not in visitor.get("/config?q=MAIL").words and "No queue name matches" in visitor.get("/config?q=<b>").words

    def test_without_queues(self, visitor: Visitor) -> None:
        assert "No queues yet" in visitor.get("/config").words


class TestOverHttp:
    """`GET /v1/settings`, which the pages read: it counts nothing."""

    def test_all_or_one(self, server: Server) -> None:
        configure(server, "emails", lease=45)
        send(server, "orders", 1)
        emails = {"queue": "emails", "settings": {"lease_ms": 45_000}}
        assert ask(server, "GET", "/v1/settings").json == {"defaults": {}, "queues": [emails, {"queue": "orders", "settings": {}}]}
        assert ask(server, "GET", "/v1/settings?queue=emails").json["queues"] == [emails]
        assert ask(server, "GET", "/v1/settings?queue=nobody").problem == (404, "queue_not_found")

    def test_a_limited_key(self, locked_site: Served) -> None:
        for queue in ("emails", "orders"):
            send(locked_site.server, queue, 1)
        told = ask(locked_site.server, "GET", "/v1/settings", secret="rowq_mailer").json
        assert [each["queue"] for each in told["queues"]] == ["emails"]
        assert ask(locked_site.server, "GET", "/v1/settings?queue=orders", secret="rowq_mailer").problem == (403, "forbidden")


class TestInTheBrowser:
    def test_a_waiting_consumer_obeys_a_pause_and_its_end(self, page: Page, site: Served) -> None:
        configure(site.server, "emails", paused=True)
        send(site.server, "emails", "work")
        consumer = Background(lambda: receive(site.server, "emails", wait=600))
        page.goto(URL)
        page.get_by_label("paused", exact=True).select_option("false")
        assert consumer.is_running
        page.get_by_role("button", name="Save paused").click()
        expect(page.get_by_role("status")).to_have_text("paused is now false.")
        assert [delivery.payload for delivery in consumer.result(60)] == ["work"]

    def test_the_next_failure_obeys_new_attempts(self, page: Page, site: Served) -> None:
        send(site.server, "emails", "work")
        (delivery,) = receive(site.server, "emails")
        page.goto(URL)
        field = page.get_by_label("max_attempts", exact=True)
        field.fill("1")
        field.press("Enter")
        expect(page.get_by_role("status")).to_have_text("max_attempts is now 1.")
        settle(site.server, delivery, Nack("failed"))
        assert site.server.engine.insights.stats("emails").dead == 1

    def test_back_to_the_default(self, page: Page, site: Served) -> None:
        configure(site.server, "emails", lease=45)
        page.goto(URL)
        page.get_by_role("button", name=re.compile("reset to 30s.*lease")).click()
        expect(page.get_by_label("lease", exact=True)).to_have_value("30s")
        assert site.server.engine.insights.settings("emails") == Settings()

    def test_what_is_wrong_is_told_there(self, page: Page, faults: Faults) -> None:
        faults.allow("400")
        page.goto(URL)
        field = page.get_by_label("lease", exact=True)
        field.fill("soon")
        field.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("'soon' is not a duration")
        expect(page.get_by_label("lease", exact=True)).to_have_value("soon")
