"""Dead letters on their pages: grouped by what they died of, found, put back, deleted; and what others do meanwhile."""

from __future__ import annotations

import re
from html import unescape

import pytest
from playwright.sync_api import Page, expect

from rowq.server.admin import dead
from tests.admin.accessibility import assert_accessible
from tests.admin.browser import Windows
from tests.admin.conftest import Served
from tests.admin.letters import count, kill
from tests.admin.visiting import Shown, Visitor, quickest
from tests.admin.working import NASTY, configure
from tests.support.background import Background
from tests.support.patience import eventually
from tests.support.server import Server

ALL = "Are you sure you want to permanently delete all messages? This cannot be undone."


def ids_on(shown: Shown) -> list[str]:
    """Those with a box to tick, in their order."""
    return re.findall(r'type="checkbox" name="id" value="([^"]+)"', shown.text)


def confirm(visitor: Visitor, path: str, fields: dict[str, str | list[str]]) -> Shown:
    """Asks, reads the page, agrees, and looks at where that led."""
    shown = visitor.post(path, fields)
    assert shown.status == 200 and 'name="confirmed" value="yes"' in shown.text
    return visitor.follow(visitor.post(path, {**_hidden(shown), "confirmed": "yes"}))


def _hidden(shown: Shown) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', shown.text):
        if name not in ("csrf", "confirmed"):
            fields.setdefault(name, []).append(unescape(value))
    return fields


class TestTheList:
    def test_it_is_under_both_names(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", 1, 2, 3)
        for name in ("emails-dlq", "emails.dlq"):
            assert ids_on(visitor.get(f"/queue/{name}/")) == ids[::-1]

    def test_a_queue_without_any_says_so(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails")
        shown = visitor.get("/queue/emails-dlq/")
        assert shown.status == 200 and "No dead letters" in shown.words

    def test_a_queue_that_is_not_there_is_told_with_the_one_that_may_be_meant(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails")
        shown = visitor.get("/queue/emials-dlq/")
        assert shown.status == 404 and "there is no queue 'emials'" in shown.words and "did you mean 'emails'?" in shown.words

    def test_it_comes_in_pages_the_newest_first(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(dead.PAGE + 5))[::-1]
        first = visitor.get("/queue/emails-dlq/")
        (older,) = re.findall(r'<a href="([^"]+)">Older</a>', first.text)
        second = visitor.get(older.replace("&amp;", "&"))
        assert (ids_on(first), ids_on(second)) == (ids[: dead.PAGE], ids[dead.PAGE :])
        assert "Older</a>" not in second.text and '<a href="/queue/emails-dlq/">Newest</a>' in second.text

    def test_filters(self, server: Server, visitor: Visitor) -> None:
        (by_key,) = kill(server, "emails", "a", key="k", error="one")
        (by_group,) = kill(server, "emails", "b", group="g", error="two")
        (by_text,) = kill(server, "emails", {"to": "ada"}, error="three")
        assert ids_on(visitor.get("/queue/emails-dlq/?key=k")) == [by_key]
        assert ids_on(visitor.get("/queue/emails-dlq/?group=g")) == [by_group]
        assert ids_on(visitor.get("/queue/emails-dlq/?text=ada")) == [by_text]
        assert ids_on(visitor.get("/queue/emails-dlq/?text=two")) == [by_group]
        assert len(ids_on(visitor.get("/queue/emails-dlq/?reason=rejected"))) == 3
        assert ids_on(visitor.get("/queue/emails-dlq/?reason=message_expired")) == []
        assert ids_on(visitor.get("/queue/emails-dlq/?reason=rejected&fingerprint=two")) == [by_group]
        assert "No dead letter matches" in visitor.get("/queue/emails-dlq/?key=nobody").words

    def test_what_it_cannot_read_is_told(self, server: Server, visitor: Visitor) -> None:
        configure(server, "emails")
        assert visitor.get("/queue/emails-dlq/?after=nonsense").status == 400
        assert visitor.get("/queue/emails-dlq/?text=%00").status == 400
        assert visitor.get("/queue/%3Cscript%3E-dlq/").status == 400

    def test_a_long_search_is_broken_off_and_goes_on(self, server: Server, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rowq.store.read.CANDIDATES", 2)
        monkeypatch.setattr("rowq.store.read._MOST_QUERIES", 2)
        (rare,) = kill(server, "emails", 0, error="rare")
        kill(server, "emails", *range(6), error="common")
        shown = visitor.get("/queue/emails-dlq/?fingerprint=rare")
        assert ids_on(shown) == [] and "Some dead letters have not been searched yet." in shown.words
        (on,) = re.findall(r'<a href="([^"]+)">Search older', shown.text)
        assert ids_on(visitor.get(on.replace("&amp;", "&"))) == [rare]

    def test_nothing_that_it_shows_is_taken_for_html(self, server: Server, visitor: Visitor) -> None:
        kill(server, "emails", NASTY, error=NASTY, key="<b>k", group="<i>g")
        kill(server, "emails", bytes(range(256)), error=None)
        kill(server, "emails", {"<u>": ["</td>"]}, "x" * (200 << 10))
        for path in ("/queue/emails-dlq/", "/dead", "/queue/emails-dlq/?text=%3Cscript%3E&key=%3Cb%3Ek&group=%22%3E%3Cs%3E"):
            shown = visitor.get(path)
            assert shown.status == 200 and len(shown.text) < 100_000
            for tag in ("<script>alert", "<img src=x", "<b>k", "<i>g", "<u>", "<s>", "49🎉"):
                assert tag not in shown.text
            assert "\u202e" not in shown.words and "\x1b" not in shown.words
        assert "256 bytes: 00 01 02" in visitor.get("/queue/emails-dlq/").words

    def test_a_fragment_is_the_inside_of_the_page(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", 1)
        shown = visitor.get("/queue/emails-dlq/", fragment=True)
        assert ids_on(shown) == ids and "<html" not in shown.text


class TestFailures:
    @pytest.fixture(autouse=True)
    def letters(self, server: Server) -> None:
        for number in range(3):
            kill(server, "emails", number, error=f"timeout after {number} s")
        kill(server, "emails", 3, error="no such user 'ada'")

    def test_they_are_counted_by_what_they_have_in_common(self, visitor: Visitor) -> None:
        words = visitor.get("/queue/emails-dlq/").words
        assert re.search(r"3 rejected timeout after 2 s .* 1 rejected no such user 'ada'", words)

    def test_those_of_one_are_shown(self, visitor: Visitor) -> None:
        shown = visitor.get("/queue/emails-dlq/")
        (url,) = re.findall(r'href="([^"]*fingerprint=timeout[^"]*)"', shown.text)
        shown = visitor.get(url.replace("&amp;", "&"))
        assert len(ids_on(shown)) == 3 and "timeout after <number> s" in shown.words

    @pytest.mark.parametrize(("path", "word", "ready"), [("redrive", "redriven", 3), ("removal", "deleted", 0)])
    def test_those_of_one_go(self, server: Server, visitor: Visitor, path: str, word: str, ready: int) -> None:
        these: dict[str, str | list[str]] = {"reason": "rejected", "fingerprint": "timeout after <number> s"}
        asked = visitor.post(f"/queue/emails/dead/{path}", these)
        assert "3 dead letters" in asked.words and count(server, "emails", "dead") == 4
        assert f"3 dead letters were {word}." in confirm(visitor, f"/queue/emails/dead/{path}", these).words
        assert (count(server, "emails", "dead"), count(server, "emails", "ready")) == (1, ready)

    def test_one_that_is_gone_has_none(self, visitor: Visitor) -> None:
        assert "0 dead letters" in visitor.post("/queue/emails/dead/redrive", {"reason": "x", "fingerprint": "y"}).words


class TestActions:
    def test_nothing_is_deleted_before_somebody_agrees(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(3))
        for fields in ({"all": "yes"}, {"id": ids}, {"one": ids[0]}, {"all": "yes", "confirmed": "no"}):
            shown = visitor.post("/queue/emails/dead/removal", fields)
            assert shown.status == 200 and "cannot be undone" in shown.words
        assert count(server, "emails", "dead") == 3

    def test_deleting_all_asks_with_these_words_and_the_number(self, server: Server, visitor: Visitor) -> None:
        kill(server, "emails", *range(1_234))
        shown = visitor.post("/queue/emails/dead/removal", {"all": "yes"})
        assert ALL in shown.words and "1,234 dead letters" in shown.words
        assert 'href="/queue/emails-dlq/" data-escape' in shown.text
        assert "1,234 dead letters were deleted." in confirm(visitor, "/queue/emails/dead/removal", {"all": "yes"}).words
        assert count(server, "emails", "dead") == 0

    def test_the_selected_are_deleted_or_put_back(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(5))
        assert "2 dead letters" in visitor.post("/queue/emails/dead/removal", {"id": ids[:2]}).words
        assert "2 dead letters were deleted." in confirm(visitor, "/queue/emails/dead/removal", {"id": ids[:2]}).words
        assert "2 dead letters were redriven." in confirm(visitor, "/queue/emails/dead/redrive", {"id": ids[2:4]}).words
        assert ids_on(visitor.get("/queue/emails-dlq/")) == ids[4:]
        assert count(server, "emails", "ready") == 2

    def test_what_somebody_else_did_meanwhile_is_told(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(5))
        server.engine.driver.drive(server.engine.verbs.redrive("emails", ids[:2], None, None, None, None))
        assert "1 of 3 dead letters was redriven." in confirm(visitor, "/queue/emails/dead/redrive", {"id": ids[:3]}).words
        assert "2 of 5 dead letters were deleted." in confirm(visitor, "/queue/emails/dead/removal", {"id": ids}).words
        assert "0 of 1 dead letter were deleted." in confirm(visitor, "/queue/emails/dead/removal", {"one": ids[0]}).words
        assert count(server, "emails", "ready") == 3

    def test_all_go_back_at_most_so_many(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(5))
        fields: dict[str, str | list[str]] = {"all": "yes", "limit": "2", "rate": "1000"}
        shown = visitor.post("/queue/emails/dead/redrive", fields)
        assert "2 dead letters" in shown.words and "At most 1000 per second." in shown.words
        assert "2 dead letters were redriven." in confirm(visitor, "/queue/emails/dead/redrive", fields).words
        assert ids_on(visitor.get("/queue/emails-dlq/")) == ids[:1:-1]

    @pytest.mark.parametrize("fields", [{"rate": "0"}, {"rate": "x"}, {"rate": "nan"}, {"rate": "inf"}, {"limit": "-1"}, {"limit": "1.5"}])
    def test_what_cannot_be_is_refused(self, server: Server, visitor: Visitor, fields: dict[str, str]) -> None:
        kill(server, "emails", 1, 2)
        shown = visitor.post("/queue/emails/dead/redrive", {"all": "yes", "confirmed": "yes", **fields})
        if shown.status == 303:
            assert "Then it failed" in visitor.follow(shown).words
        else:
            assert shown.status == 400
        assert count(server, "emails", "dead") == 2

    def test_nothing_chosen_does_nothing(self, server: Server, visitor: Visitor) -> None:
        kill(server, "emails", 1)
        for path in ("redrive", "removal"):
            assert "tick their boxes" in visitor.follow(visitor.post(f"/queue/emails/dead/{path}", {"confirmed": "yes"})).words
        assert count(server, "emails", "dead") == 1

    def test_one_is_back_where_one_was(self, server: Server, visitor: Visitor) -> None:
        (id,) = kill(server, "emails", 1, key="k")
        shown = visitor.post(f"/queue/emails-dlq/messages/requeue/{id}", {"here": "key=k&reason=rejected"})
        assert shown.headers["location"] == "/queue/emails-dlq/?key=k&reason=rejected"
        shown = visitor.post("/queue/emails/dead/redrive", {"here": "\r\nset-cookie: a=b"})
        assert shown.status == 303 and "set-cookie: a=b" not in shown.headers["location"]

    def test_a_forged_form_does_nothing(self, server: Server, visitor: Visitor) -> None:
        kill(server, "emails", 1)
        for path in ("redrive", "removal"):
            fields = {"all": "yes", "confirmed": "yes"}
            assert visitor.post(f"/queue/emails/dead/{path}", fields, token="").status == 403
            assert visitor.post(f"/queue/emails/dead/{path}", fields, sec_fetch_site="cross-site").status == 403
        assert count(server, "emails", "dead") == 1

    def test_ten_thousand_are_chosen_at_once(self, server: Server, visitor: Visitor) -> None:
        ids = kill(server, "emails", *range(10_000))
        shown = visitor.post("/queue/emails/dead/removal", {"id": ids})
        assert "10,000 dead letters" in shown.words
        shown = visitor.post("/queue/emails/dead/removal", {"id": ids, "confirmed": "yes"})
        assert shown.status == 303


class TestAKeyForSomeQueues:
    @pytest.fixture
    def mailer(self, locked_site: Served) -> Visitor:
        mailer = Visitor(locked_site.url)
        mailer.log_in("rowq_mailer")
        return mailer

    def test_it_sees_its_own(self, locked_site: Served, mailer: Visitor) -> None:
        kill(locked_site.server, "emails", 1)
        kill(locked_site.server, "orders", 1, error="a secret of others")
        eventually(lambda: "emails" in mailer.get("/dead").words)
        shown = mailer.get("/dead")
        assert "orders" not in shown.words and "secret" not in shown.words
        assert mailer.get("/queue/emails-dlq/").status == 200
        assert mailer.get("/queue/orders-dlq/").status == 403

    def test_it_touches_no_other(self, locked_site: Served, mailer: Visitor) -> None:
        (id,) = kill(locked_site.server, "orders", 1)
        for path in ("redrive", "removal"):
            for fields in ({"all": "yes"}, {"id": [id]}, {"reason": "rejected", "fingerprint": "no such address"}):
                assert mailer.post(f"/queue/orders/dead/{path}", {**fields, "confirmed": "yes"}).status == 403
                assert mailer.post(f"/queue/orders/dead/{path}", fields).status == 403
            shown = mailer.follow(mailer.post(f"/queue/emails/dead/{path}", {"id": [id], "confirmed": "yes"}))
            assert "0 of 1 dead letter" in shown.words
        assert count(locked_site.server, "orders", "dead") == 1


class TestAllQueues:
    def test_those_that_have_any_with_the_newest(self, server: Server, visitor: Visitor) -> None:
        kill(server, "emails", 1, error="old")
        kill(server, "orders", 1, 2, error="lately")
        server.engine.driver.drive(server.engine.verbs.send("idle", 1, {}))
        eventually(lambda: re.search(r"orders 2 .* rejected lately emails 1 .* rejected old", visitor.get("/dead").words))
        assert "idle" not in visitor.get("/dead").words

    def test_none(self, visitor: Visitor) -> None:
        assert "No dead letters." in visitor.get("/dead").words


MANY = pytest.mark.prove("a speed, and 10 s to fill the queue; 1,000 dead letters and no haste stand for it")


@pytest.mark.parametrize(("each", "seconds"), [(100, 60), pytest.param(4_000, 1, marks=MANY)])
def test_a_page_over_very_many_opens_in_a_second(server: Server, visitor: Visitor, each: int, seconds: int) -> None:
    for start in range(0, 10 * each, each):
        kill(server, "emails", *range(start, start + each), error=f"timeout after {start} s")
    for path in ("/queue/emails-dlq/", "/queue/emails-dlq/?key=nobody", "/queue/emails-dlq/?reason=message_expired", "/dead"):
        assert quickest(visitor, path) < seconds, path


class TestInABrowser:
    def test_a_dead_letter_goes_back_and_a_consumer_gets_it(self, page: Page, server: Server) -> None:
        (id,) = kill(server, "emails", {"to": "ada"})
        verbs = server.engine.verbs
        waiting = Background(lambda: server.engine.driver.drive(verbs.receive("emails", 1, 15, None, None, None, None)))
        page.goto("/dead")
        page.get_by_role("link", name="emails").click()
        assert_accessible(page)
        page.get_by_role("button", name=f"Redrive {id}").click()
        expect(page.get_by_role("status")).to_have_text("1 dead letter was redriven.")
        (delivery,) = waiting.result()
        assert (delivery.id, delivery.payload) == (id, {"to": "ada"})

    def test_the_selected_are_deleted_by_the_keyboard_alone(self, page: Page, server: Server) -> None:
        ids = kill(server, "emails", *range(3))
        page.goto("/queue/emails-dlq/")
        page.get_by_label("Select all on this page").focus()
        page.keyboard.press("Space")
        page.get_by_label(f"Select {ids[0]}").focus()
        page.keyboard.press("Space")
        page.get_by_role("button", name="Delete selected").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("2 dead letters")).to_be_visible()
        assert_accessible(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("heading", name="Dead letters of emails")).to_be_visible()
        assert count(server, "emails", "dead") == 3
        page.get_by_label(f"Select {ids[1]}").check()
        page.get_by_label(f"Select {ids[2]}").check()
        page.get_by_role("button", name="Delete selected").focus()
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Delete the selected dead letters").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("2 dead letters were deleted.")
        assert count(server, "emails", "dead") == 1

    def test_a_failure_with_a_nasty_name_is_put_back(self, page: Page, server: Server) -> None:
        kill(server, "emails", NASTY, error=NASTY + "\r\n\t a second line", key="<b>k")
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.goto("/queue/emails-dlq/")
        page.get_by_role("link", name="<script>").click()
        expect(page.get_by_role("heading", name="Matches")).to_be_visible()
        expect(page.get_by_label("Select 0")).to_have_count(1)
        page.get_by_role("button", name="Redrive these").click()
        page.get_by_role("button", name="Redrive these dead letters").click()
        expect(page.get_by_role("status")).to_have_text("1 dead letter was redriven.")

    def test_it_works_without_scripts(self, windows: Windows, site: Served) -> None:
        kill(site.server, "emails", *range(3))
        page = windows.open(site.url, java_script_enabled=False)
        page.goto("/queue/emails-dlq/")
        page.get_by_role("button", name="Delete all").click()
        expect(page.get_by_text(ALL)).to_be_visible()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_role("button", name="Redrive these").click()
        page.get_by_role("button", name="Redrive these dead letters").click()
        expect(page.get_by_role("status")).to_have_text("3 dead letters were redriven.")

    def test_new_failures_appear_by_themselves(self, page: Page, server: Server) -> None:
        kill(server, "emails", 1, error="the first failure")
        page.goto("/queue/emails-dlq/")
        expect(page.get_by_role("link", name="the first failure")).to_be_visible()
        page.get_by_label("Key").fill("typed")
        kill(server, "emails", 2, error="another failure")
        expect(page.get_by_role("link", name="another failure")).to_be_visible()
        assert page.get_by_label("Key").input_value() == "typed"
