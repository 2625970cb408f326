"""The page of a queue: what is in which state, found by what is known of it; pausing, purging, removing."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Ack, Nack, Reject
from rowq.server.admin import queue as page_of_queue
from rowq.server.admin import search as searching
from tests.admin.browser import Windows
from tests.admin.conftest import Served
from tests.admin.visiting import Shown, Visitor
from tests.admin.working import NASTY, configure, receive, send, send_many, settle
from tests.support.blocking import LoopThread
from tests.support.patience import eventually
from tests.support.server import Server

MAILER = "rowq_mailer"


def ids_on(shown: Shown) -> list[str]:
    return re.findall(r'/messages/([^/"]+)/details" title', shown.text)


def agree(visitor: Visitor, path: str, fields: dict[str, str | list[str]]) -> Shown:
    asked = visitor.post(path, fields)
    assert asked.status == 200 and 'name="confirmed" value="yes"' in asked.text, asked
    return visitor.follow(visitor.post(path, {**fields, "confirmed": "yes"}))


class TestTheList:
    def test_each_state_has_its_tab(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", keep="body")
        done = send(server, "emails", "done")
        settle(server, receive(server, "emails")[0], Ack())
        held = send(server, "emails", "held", group="g")
        receive(server, "emails", consumer="worker-1")
        blocked = send(server, "emails", "blocked", group="g")
        later = send(server, "emails", "later", delay=3600)
        ready = send(server, "emails", "ready", priority=3)
        expected = {"ready": ready, "scheduled": later, "blocked": blocked, "leased": held, "finished": done}
        for state, id in expected.items():
            shown = visitor.get(f"/queue/emails/?state={state}")
            assert ids_on(shown) == [id], state
        assert "worker-1" in visitor.get("/queue/emails/?state=leased").words
        assert "due in 59 min" in visitor.get("/queue/emails/?state=scheduled").words
        for path in ("/queue/emails/", "/queue/emails", "/queue/emails/messages", "/queue/emails/messages?state=ready"):
            shown = visitor.get(path)
            assert ids_on(visitor.get(shown.headers["location"]) if shown.status == 307 else shown) == [ready], path

    def test_dead_letters_have_a_page_of_their_own(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        settle(server, receive(server, "emails")[0], Reject("no such address"))
        assert '<a href="/queue/emails-dlq/">dead' in visitor.get("/queue/emails/").text
        assert id in visitor.follow(visitor.get("/queue/emails/?state=dead")).text
        assert id in visitor.get("/queue/emails-dlq/").text and id in visitor.get("/queue/emails.dlq/").text

    def test_the_numbers_stand_at_the_tabs(self, server: Server, visitor: Visitor) -> None:
        send_many(server, "emails", list(range(7)))
        receive(server, "emails", 2)
        eventually(lambda: "ready 5 scheduled 0 blocked 0 leased 2 dead 0 finished 0" in visitor.get("/queue/emails/").words)

    def test_it_comes_in_pages(self, server: Server, visitor: Visitor) -> None:
        ids = send_many(server, "emails", list(range(page_of_queue.PAGE + 5)))
        first = visitor.get("/queue/emails/")
        (next_url,) = re.findall(r'<a href="([^"]+)" rel="next">', first.text)
        second = visitor.get(next_url.replace("&amp;", "&"))
        assert ids_on(first) + ids_on(second) == ids
        assert 'rel="next"' not in second.text and '<a href="/queue/emails/">First</a>' in second.text

    def test_what_is_finished_comes_with_the_last_one_first(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails", keep="outcome")
        ids = send_many(server, "emails", list(range(page_of_queue.PAGE + 3)))
        for delivery in receive(server, "emails", len(ids)):
            settle(server, delivery, Ack())
        first = visitor.get("/queue/emails/?state=finished")
        (next_url,) = re.findall(r'<a href="([^"]+)" rel="next">', first.text)
        assert ids_on(first) + ids_on(visitor.get(next_url.replace("&amp;", "&"))) == ids[::-1] and "not kept" in first.words

    def test_filters(self, server: Server, visitor: Visitor) -> None:
        by_key = send(server, "emails", "a", key="k 1&2")
        by_group = send(server, "emails", "b", group="g")
        by_text = send(server, "emails", {"to": "ada%_"})
        assert ids_on(visitor.get("/queue/emails/?key=k+1%262")) == [by_key]
        assert ids_on(visitor.get("/queue/emails/?group=g")) == [by_group]
        assert ids_on(visitor.get("/queue/emails/?text=ada%25_")) == [by_text]
        assert ids_on(visitor.get("/queue/emails/?after_time=2020-01-01T00:00&before_time=2200-01-01T00:00")) == [by_key, by_group, by_text]
        assert ids_on(visitor.get("/queue/emails/?before_time=2020-01-01T00:00")) == []
        assert "No ready message matches" in visitor.get("/queue/emails/?text=nowhere").words

    def test_a_failed_try_is_found_by_its_error(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        settle(server, receive(server, "emails")[0], Nack("Traceback (most recent call last):\n  …\nValueError: out of stamps", delay=0))
        shown = visitor.get("/queue/emails/?text=out+of+stamps")
        assert ids_on(shown) == [id] and "ValueError: out of stamps" in shown.words

    def test_a_wrong_time_is_told_at_the_form(self, server: Server, visitor: Visitor) -> None:
        send(server, "emails", 1)
        shown = visitor.get("/queue/emails/?after_time=yesterday")
        assert shown.status == 400 and "'yesterday' is not a time" in shown.words and 'value="yesterday"' in shown.text

    def test_an_id_is_found_wherever_it_is(self, server: Server, visitor: Visitor) -> None:
        here, there = send(server, "emails", 1, delay=60), send(server, "orders", 2)
        gone = send(server, "emails", 3)
        settle(server, receive(server, "emails")[0], Ack())
        for id, queue in ((here, "emails"), (there, "orders"), (gone, "emails")):
            shown = visitor.get(f"/queue/emails/?id=+{id}+")
            assert (shown.status, shown.headers["location"]) == (303, f"/queue/{queue}/messages/{id}/details")
        shown = visitor.get("/queue/emails/?id=<b>nobody</b>")
        assert shown.status == 404 and "There is no message <b>nobody</b>" in shown.words and "<b>nobody" not in shown.text

    def test_a_queue_that_nobody_used_says_how_to_begin(self, visitor: Visitor) -> None:
        shown = visitor.get("/queue/fresh/")
        assert shown.status == 200 and "curl -X POST" in shown.words and "/v1/queues/fresh/messages" in shown.words

    def test_a_name_that_none_can_have_is_refused(self, visitor: Visitor) -> None:
        assert visitor.get("/queue/a%20b/").status == 400
        assert visitor.get("/queue/emails/?state=nowhere").status == 400

    def test_a_fragment_is_what_stands_inside(self, server: Server, visitor: Visitor) -> None:
        id = send(server, "emails", 1)
        for path in ("/queue/emails/", "/queue/emails/messages"):
            shown = visitor.get(path, fragment=True)
            assert ids_on(shown) == [id] and "<html" not in shown.text

    def test_hostile_content_is_text(self, server: Server, visitor: Visitor) -> None:
        send(server, "emails", NASTY, key=NASTY.replace("\x1b", ""), group=NASTY.replace("\x1b", ""))
        receive(server, "emails", consumer=NASTY)
        send(server, "emails", {NASTY: "<svg onload=alert(3)>" * 12_000}, priority=9)
        for path in ("/queue/emails/", "/queue/emails/?state=leased"):
            shown = visitor.get(path)
            assert "<script>alert" not in shown.text and "<img src=x" not in shown.text and "<svg onload" not in shown.text
            assert "{{ 7*7 }}" in shown.words and "\u202e" not in shown.text and "\x1b" not in shown.text
            assert len(shown.text) < 60_000


class TestSearching:
    @pytest.fixture
    def impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searching, "PATIENCE", 0)

    def test_a_long_one_goes_on_while_the_page_asks_again(self, server: Server, visitor: Visitor, impatient: None) -> None:
        id = send(server, "emails", "needle")
        url = "/queue/emails/?text=needle"
        assert "Still searching" in visitor.get(url).words
        assert eventually(lambda: ids_on(visitor.get(url))) == [id]

    def test_the_page_shows_by_itself_what_it_finds(self, page: Page, server: Server, impatient: None) -> None:
        send(server, "emails", "needle")
        page.goto("/queue/emails/?text=needle")
        expect(page.get_by_text("Still searching")).to_be_visible()
        expect(page.locator("table.messages tbody tr")).to_have_count(1)

    def test_whoever_comes_while_others_search_has_a_turn_later(
        self, server: Server, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = send(server, "emails", "needle")
        url = "/queue/emails/?text=needle"
        with monkeypatch.context() as crowd:
            crowd.setattr(searching, "_MOST", 0)
            shown = visitor.get(url)
        assert shown.status == 200 and "Still searching" in shown.words
        assert eventually(lambda: ids_on(visitor.get(url))) == [id]

    def test_what_nobody_came_back_for_is_not_all_kept(self, impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(searching, "_MOST", 100)

        async def search() -> list[str]:
            searches, end = searching.Searches(), asyncio.Event()
            for number in range(searching._MOST_KEPT + 2):
                assert await searches.find(None, str(number), end.wait) is None
            end.set()
            await asyncio.wait(searches._tasks.values())
            return [what for _, what in searches._tasks]

        loop = LoopThread()
        try:
            kept = loop.run(search())
        finally:
            loop.stop()
        assert kept == [str(number) for number in range(2, searching._MOST_KEPT + 2)]

    def test_one_that_fails_tells_why(self, server: Server, visitor: Visitor) -> None:
        send(server, "emails", 1)
        shown = visitor.get("/queue/emails/?text=x&after=nonsense")
        assert shown.status == 400 and "is not a cursor" in shown.words


class TestActions:
    def test_pause_and_resume(self, server: Server, visitor: Visitor) -> None:
        send(server, "emails", 1)
        shown = visitor.follow(visitor.post("/queue/emails/pause"))
        assert "emails is paused" in shown.words and ">paused</span>" in shown.text and receive(server, "emails") == []
        shown = visitor.follow(visitor.post("/queue/emails/resumption"))
        assert ">paused</span>" not in shown.text and len(receive(server, "emails")) == 1

    def test_a_purge_names_the_number_first(self, server: Server, visitor: Visitor) -> None:
        send_many(server, "emails", list(range(12)))
        send(server, "emails", "later", delay=60)
        send(server, "orders", "other")
        fields: dict[str, str | list[str]] = {"state": ["ready", "scheduled"]}
        asked = visitor.post("/queue/emails/purge", fields)
        assert "13 messages" in asked.words and "ready and scheduled" in asked.words
        assert server.engine.insights.stats("emails").depth == 13
        shown = agree(visitor, "/queue/emails/purge", fields)
        assert "13 messages were deleted" in shown.words
        assert server.engine.insights.stats("emails").depth == 0 and server.engine.insights.stats("orders").depth == 1

    def test_a_purge_of_nothing_asks_again(self, server: Server, visitor: Visitor) -> None:
        send(server, "emails", 1)
        assert visitor.get("/queue/emails/purge").status == 200
        shown = visitor.post("/queue/emails/purge", {"confirmed": "yes"})
        assert shown.status == 400 and "Choose what to delete" in shown.words
        assert visitor.post("/queue/emails/purge", {"state": "all", "confirmed": "yes"}).status == 400

    def test_deleting_a_queue(self, server: Server, visitor: Visitor) -> None:
        send_many(server, "emails", [1, 2, 3])
        assert "3 messages" in visitor.post("/queue/emails/removal").words
        shown = agree(visitor, "/queue/emails/removal", {})
        assert "The queue emails was deleted" in shown.words
        assert [stats.queue for stats in server.engine.insights.queues()] == []

    @pytest.mark.parametrize("path", ["pause", "resumption", "purge", "removal", "settings", "send", "messages/x/removal"])
    def test_without_a_token_nothing_happens(self, server: Server, visitor: Visitor, path: str) -> None:
        send(server, "emails", 1)
        fields = {"confirmed": "yes", "state": "ready", "name": "paused", "value": "true", "payload": "1"}
        assert visitor.post(f"/queue/emails/{path}", fields, token="").status == 403
        assert visitor.post(f"/queue/emails/{path}", fields, token="0" * 64).status == 403
        assert server.engine.insights.stats("emails").ready == 1 and not server.engine.insights.stats("emails").paused


def test_a_limited_key_sees_and_touches_its_queues_alone(locked_site: Served) -> None:
    server, visitor = locked_site.server, Visitor(locked_site.url)
    mine, other = send(server, "emails", "mine"), send(server, "orders", "secret")
    visitor.log_in(MAILER)
    assert ids_on(visitor.get("/queue/emails/")) == [mine]
    for path in ("", "messages", "send", "settings", "purge", "?text=secret"):
        shown = visitor.get(f"/queue/orders/{path}")
        assert shown.status == 403 and "secret" not in shown.words, path
    assert visitor.get(f"/queue/emails/?id={other}").status == 404
    for queue, status in (("emails", 404), ("orders", 403)):
        for page in ("details", "payload"):
            assert visitor.get(f"/queue/{queue}/messages/{other}/{page}").status == status
        assert visitor.post(f"/queue/{queue}/messages/{other}/removal", {"confirmed": "yes"}).status == status
    for path in ("pause", "resumption", "purge", "removal", "settings", "send"):
        fields = {"confirmed": "yes", "state": "ready", "name": "paused", "value": "true", "payload": "1"}
        assert visitor.post(f"/queue/orders/{path}", fields).status == 403, path
    config = visitor.get("/config")
    assert "emails" in config.words and "orders" not in config.words
    assert server.engine.insights.stats("orders").ready == 1
    assert visitor.post("/queue/emails/pause").status == 303
    assert [(event.event, event.actor) for event in server.engine.insights.actions("emails", 1)] == [("paused", "key:mailer")]


class TestInTheBrowser:
    def test_reading_needs_no_script(self, windows: Windows, site: Served) -> None:
        ids = send_many(site.server, "emails", [{"to": f"customer-{number}"} for number in range(60)])
        page = windows.open(site.url, java_script_enabled=False)
        page.goto("/queue/emails/")
        page.get_by_label("Text").fill("customer-42")
        page.get_by_role("button", name="Find").click()
        page.get_by_role("link", name=ids[42][-9:]).click()
        expect(page.get_by_role("heading", name="History")).to_be_visible()
        page.get_by_role("link", name="emails").click()
        page.get_by_role("link", name="Next").click()
        expect(page.locator("table.messages tbody tr")).to_have_count(10)

    def test_the_list_and_the_numbers_are_live(self, page: Page, site: Served) -> None:
        send(site.server, "emails", "first")
        page.goto("/queue/emails/")
        expect(page.locator("table.messages tbody tr")).to_have_count(1)
        send_many(site.server, "emails", ["second", "third"])
        expect(page.locator("table.messages tbody tr")).to_have_count(3)
        expect(page.get_by_role("link", name=re.compile("^ready 3"))).to_be_visible()
