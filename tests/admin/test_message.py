"""The page of a message: what is in it, where it is, and what happened to it; also of one that is gone."""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Ack, Nack, Reject
from rowq.server.admin import message as messages
from tests.admin.accessibility import assert_accessible
from tests.admin.conftest import Served
from tests.admin.visiting import Visitor
from tests.admin.working import NASTY, configure, receive, send, settle
from tests.support.server import Server


def url(id: str, queue: str = "emails", page: str = "details") -> str:
    return f"/queue/{queue}/messages/{id}/{page}"


def download(site: Served, path: str) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=20)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer, answer.read()


class TestDetails:
    def test_everything_that_is_known_of_it(self, server: Server, visitor: Visitor) -> None:
        id = send(
            server,
            "emails",
            {"to": "ada", "lines": [1, 2]},
            key="welcome-42",
            group="ada",
            priority=7,
            ttl=3600,
            deadline=7200,
            max_attempts=4,
            backoff=[1, 60],
            headers={"trace": "4bf92f35"},
            keys_if_undelivered=[["customers", 42]],
            id="order:42",
        )
        receive(server, "emails", consumer="worker-1")
        words = visitor.get(url(id)).words
        for part in (
            "Message order:42",
            '"to": "ada"',
            "JSON, 26 bytes",
            "trace 4bf92f35",
            "leased",
            "Attempts 1 of 4",
            "Consumer worker-1",
            "Received 20",
            "Updated 20",
            "Leased 20",
            "Lease ends 20",
            "in 9 min",
            "Deadline 20",
            "Key welcome-42",
            "Group ada",
            "Priority 7",
            "Time to live 1 h",
            "Backoff 1s,1m",
            "customers",
            "enqueued 20",
            "delivered attempt 1 by worker-1",
        ):
            assert part in words, part

    def test_a_failed_try_and_its_end(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", max_attempts=2)
        id = send(server, "emails", 1)
        settle(server, receive(server, "emails")[0], Nack("the mail server is away", delay=0))
        shown = visitor.get(url(id))
        assert "Last error the mail server is away" in shown.words and "Attempts 1 of 2" in shown.words and "Redrive" not in shown.words
        settle(server, receive(server, "emails")[0], Nack("and away again", delay=0))
        shown = visitor.get(url(id))
        for part in ("Why it died", "max attempts reached", "and away again", "the mail server is away", "Died 20", "dead attempt 2"):
            assert part in shown.words, part
        assert f'action="/queue/emails-dlq/messages/requeue/{id}"' in shown.text and f'href="{url(id, page="resend")}"' in shown.text
        assert visitor.get(url(id, "emails-dlq")).status == 200

    def test_one_that_is_gone_has_its_story(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        settle(server, receive(server, "emails", consumer="worker-1")[0], Ack())
        shown = visitor.get(url(id))
        assert shown.status == 200 and "This message is gone" in shown.words and "acked" in shown.words and "worker-1" in shown.words
        assert "/removal" not in shown.text

    def test_a_finished_one_without_its_body(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", keep="outcome")
        id = send(server, "emails", {"a": 1})
        settle(server, receive(server, "emails")[0], Ack())
        assert "It was not kept" in visitor.get(url(id)).words

    def test_without_an_audit(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", audit=False)
        shown = visitor.get(url(send(server, "emails", 1)))
        assert shown.status == 200 and "No records" in shown.words

    def test_a_long_story_is_told_from_its_end(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        for _ in range(260):
            settle(server, receive(server, "emails")[0], Nack("again", delay=0, counts=False))
        shown = visitor.get(url(id))
        assert shown.text.count("delivered") == 250 and "lines are left out" in shown.words

    def test_another_queue_leads_to_the_right_one(self, server: Server, visitor: Visitor) -> None:
        id, gone = send(server, "orders", 1), send(server, "orders", 2)
        settle(server, receive(server, "orders", 2)[1], Ack())
        for each in (id, gone):
            shown = visitor.get(url(each))
            assert (shown.status, shown.headers["location"]) == (303, url(each, "orders"))

    def test_one_that_never_was(self, server: Server, visitor: Visitor) -> None:
        for id in ("nobody", "01a1e246-55f2-7000-8000-000000000049", "%3Cscript%3E"):
            for page in ("details", "payload"):
                shown = visitor.get(url(id, page=page))
                assert shown.status in (400, 404) and "<script>" not in shown.text, (id, page)

    def test_it_is_deleted_once_that_is_confirmed(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        receive(server, "emails")
        asked = visitor.post(url(id, page="removal"))
        assert (
            "1 message" in asked.words
            and "A consumer is processing it" in asked.words
            and server.engine.insights.stats("emails").leased == 1
        )
        shown = visitor.follow(visitor.post(url(id, page="removal"), {"confirmed": "yes"}))
        assert f"The message {id} was deleted." in shown.words and server.engine.insights.stats("emails").depth == 0
        assert "deleted" in visitor.get(url(id)).words
        assert visitor.post(url(id, page="removal"), {"confirmed": "yes"}).status == 404


class TestPayloads:
    def test_hostile_text_is_text_everywhere(self, server: Server, visitor: Visitor) -> None:
        nasty = NASTY.replace("\x1b", "")
        send(server, "emails", {NASTY: NASTY}, key=nasty, group=nasty, headers={nasty: NASTY}, id="nasty")
        settle(server, receive(server, "emails", consumer=NASTY)[0], Reject(NASTY))
        for path in (url("nasty"), url("nasty", page="resend")):
            shown = visitor.get(path)
            assert shown.status == 200 and "<script>alert" not in shown.text and "<img src=x" not in shown.text
            assert "{{ 7*7 }}" in shown.words
        assert "\u202e" not in visitor.get(url("nasty")).text and "\x1b" not in visitor.get(url("nasty")).text

    @pytest.mark.parametrize(
        ("given", "kind", "shown_as"),
        [
            ({"a": [1, None]}, "JSON", "{\n  &#34;a&#34;: [\n    1,\n    null\n  ]\n}"),
            ("two\nlines <b>", "text", "two\nlines &lt;b&gt;"),
            (b"\x00\x01<b>\xff", "bytes", "000000  00 01 3c 62 3e ff"),
            (b"plain <i>", "bytes", "plain &lt;i&gt;"),
            (b"", "bytes", "no bytes"),
            (None, "JSON", "null"),
            ("", "text", "text, 2 bytes"),
        ],
    )
    def test_each_kind(self, server: Server, visitor: Visitor, given: Any, kind: str, shown_as: str) -> None:
        shown = visitor.get(url(send(server, "emails", given)))
        assert shown.status == 200 and f"{kind}, " in shown.text and shown_as in shown.text

    def test_a_large_one_is_cut_and_can_be_had_whole(self, site: Served, visitor: Visitor) -> None:
        text = "<b>ä</b>" * 29_000
        id = send(site.server, "emails", text)
        shown = visitor.get(url(id))
        assert "Only the beginning is shown" in shown.words and len(shown.text) < 6 * messages.SHOWN
        answer, body = download(site, url(id, page="payload"))
        assert body.decode() == text
        assert answer.headers["content-type"] == "text/plain; charset=utf-8" and answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == f'attachment; filename="{id}.txt"'

    def test_a_quarter_of_a_megabyte_of_bytes(self, site: Served, visitor: Visitor) -> None:
        data = bytes(range(256)) * 1024
        id = send(site.server, "emails", data, id="a:b")
        shown = visitor.get(url(id))
        assert "bytes, 256.0 KiB" in shown.words and "Only the beginning is shown" in shown.words and len(shown.text) < 100_000
        answer, body = download(site, url(id, page="payload"))
        assert body == data and answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == 'attachment; filename="a_b.bin"'
        answer, body = download(site, url(id, page="payload") + "?as=base64")
        assert base64.b64decode(body) == data and answer.headers["content-type"].startswith("text/plain")

    def test_json_comes_as_text_too(self, site: Served) -> None:
        answer, body = download(site, url(send(site.server, "emails", {"<script>": 1}), page="payload"))
        assert json.loads(body) == {"<script>": 1} and answer.headers["content-type"].startswith("text/plain")


class TestInTheBrowser:
    def test_an_operator_finds_a_message_and_reads_its_story(self, admin_page: Page, locked_site: Served) -> None:
        id = send(locked_site.server, "emails", {"to": "ada"}, key="welcome-42")
        settle(locked_site.server, receive(locked_site.server, "emails", consumer="worker-1")[0], Nack("no answer", delay=0))
        admin_page.goto("/queue/emails/")
        admin_page.get_by_label("Id").fill(id)
        admin_page.keyboard.press("Enter")
        expect(admin_page.get_by_role("heading", name=f"Message {id}")).to_be_visible()
        lines = admin_page.locator(".timeline li")
        expect(lines.nth(0)).to_contain_text("enqueued")
        expect(lines.nth(1)).to_contain_text("delivered attempt 1 by worker-1")
        expect(lines.nth(2)).to_contain_text("no answer")
        assert_accessible(admin_page)

    def test_the_story_goes_on_by_itself(self, page: Page, site: Served) -> None:
        id = send(site.server, "emails", 1)
        page.goto(url(id))
        expect(page.locator("#story .badge").first).to_have_text("ready")
        receive(site.server, "emails", consumer="worker-1")
        expect(page.locator("#story .badge").first).to_have_text("leased")
        expect(page.locator(".timeline li").nth(1)).to_contain_text("worker-1")

    def test_hostile_content_does_nothing(self, page: Page, site: Served) -> None:
        nasty = NASTY.replace("\x1b", "")
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        send(site.server, "emails", NASTY, id="text", headers={nasty: NASTY}, key=nasty)
        send(site.server, "emails", NASTY.encode(), id="bytes")
        for delivery in receive(site.server, "emails", 2, consumer=NASTY):
            settle(site.server, delivery, Reject(NASTY))
        for id in ("text", "bytes"):
            page.goto(url(id))
            assert_accessible(page)
        page.goto("/queue/emails/messages/text/resend")
        page.goto("/actions")

    def test_with_the_keyboard_alone(self, page: Page, site: Served) -> None:
        id = send(site.server, "emails", 1)
        page.goto(url(id))
        page.get_by_role("button", name="Delete").focus()
        page.keyboard.press("Enter")
        button = page.get_by_role("button", name="Delete the message")
        button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("was deleted")


def test_a_limited_key_learns_nothing_of_others(locked_site: Served) -> None:
    gone = send(locked_site.server, "orders", "secret")
    settle(locked_site.server, receive(locked_site.server, "orders")[0], Ack())
    visitor = Visitor(locked_site.url)
    visitor.log_in("rowq_mailer")
    for queue, status in (("emails", 404), ("orders", 403)):
        assert visitor.get(url(gone, queue)).status == status
