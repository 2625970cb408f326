"""Whole journeys of an operator through the pages: with the mouse, with the keyboard alone, and while things change beneath."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from rowq import Broker
from rowq.engine.arguments import to_reject
from tests.admin.browser import Faults, Windows, log_in
from tests.admin.conftest import Served, with_pages
from tests.admin.letters import kill
from tests.admin.working import receive, send, send_many, settle
from tests.server.support import ADMIN, key, serving
from tests.support.life import depths
from tests.support.patience import eventually


def focused(page: Page) -> str:
    """What somebody would hear of what has the focus."""
    return str(page.evaluate("(e => (e.getAttribute('aria-label') || e.innerText || e.id || e.tagName).trim())(document.activeElement)"))


def tab_to(page: Page, name: str, most: int = 80) -> None:
    """As somebody gets there who has no mouse."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if focused(page) == name:
            return
    raise AssertionError(f"no way leads to {name!r} by the Tab key; the last was {focused(page)!r}")


def test_from_the_login_to_a_dead_letter_that_is_put_right(windows: Windows, locked_site: Served) -> None:
    server = locked_site.server
    (id,) = kill(server, "emails", {"to": "ada"}, error="550 mailbox unavailable")
    page = windows.open(locked_site.url)
    page.goto("/")
    expect(page).to_have_url(re.compile("/login"))
    log_in(page, ADMIN)
    row = page.get_by_role("row").filter(has_text="emails")
    row.get_by_role("link", name="1", exact=True).click()
    page.get_by_role("link", name=re.compile("550 mailbox")).click()
    page.locator("table.letters").get_by_role("link", name=re.compile("…")).first.click()
    expect(page.get_by_role("heading", name="Why it died")).to_be_visible()
    expect(page.locator(".timeline li")).to_have_text(
        [re.compile("enqueued"), re.compile("delivered"), re.compile("550 mailbox"), re.compile("dead")]
    )
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("status")).to_have_text("1 dead letter was redriven.")
    (delivery,) = receive(server, "emails")
    assert delivery.id == id
    page.goto("/actions")
    expect(page.get_by_role("row").filter(has_text="key:admin").filter(has_text="emails")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login"))
    page.go_back()
    page.reload()
    expect(page).to_have_url(re.compile("/login"))


def test_with_the_keyboard_alone(windows: Windows, locked_site: Served) -> None:
    server = locked_site.server
    id = send(server, "emails", {"to": "ada"})
    page = windows.open(locked_site.url)
    page.goto("/")
    expect(page.locator("input[type=password]")).to_be_focused()
    page.keyboard.type(ADMIN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    tab_to(page, "emails")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="emails", level=1)).to_be_visible()
    tab_to(page, "f-id")
    page.keyboard.type(id)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Message {id}")).to_be_visible()
    tab_to(page, "emails")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="emails", level=1)).to_be_visible()
    tab_to(page, "Settings")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    tab_to(page, "value-max_attempts")
    page.keyboard.press("Control+A")
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("max_attempts is now 1.")
    tab_to(page, "emails")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="emails", level=1)).to_be_visible()
    tab_to(page, "Purge")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Purge")).to_be_visible()
    tab_to(page, "Purge")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 message", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Cancel")).to_be_focused()  # nothing is lost by who is too quick
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("1 message was deleted.")
    assert server.engine.insights.stats("emails").depth == 0


class TestWhileThingsChange:
    def test_focus_scroll_and_typing_are_left_alone(self, page: Page, site: Served) -> None:
        ids = send_many(site.server, "emails", list(range(60)))
        page.set_viewport_size({"width": 1000, "height": 500})
        page.goto("/queue/emails/")
        page.get_by_label("Text").fill("half a wo")
        link = page.locator("table.messages tbody a").nth(30)
        link.focus()
        link.scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        send(site.server, "emails", "one more")
        expect(page.locator(".tabs a").first).to_have_text(re.compile("61"))
        assert page.evaluate("document.activeElement.title") == ids[30]
        assert page.evaluate("scrollY") == before > 0
        expect(page.get_by_label("Text")).to_have_value("half a wo")

    def test_what_is_open_stays_open(self, page: Page, site: Served) -> None:
        id = send(site.server, "emails", b"plain enough")
        page.goto(f"/queue/emails/messages/{id}/details")
        page.get_by_text("Byte by byte").click()
        expect(page.get_by_label("The payload byte by byte")).to_be_visible()
        page.get_by_role("button", name="Delete").focus()
        receive(site.server, "emails")
        expect(page.locator("#story .badge").first).to_have_text("leased")
        expect(page.get_by_label("The payload byte by byte")).to_be_visible()
        assert focused(page) == "Delete"

    def test_ticked_boxes_and_a_half_filled_form_stay(self, page: Page, site: Served) -> None:
        ids = kill(site.server, "emails", 1, 2, error="the first failure")
        page.goto("/queue/emails-dlq/")
        page.get_by_label(f"Select {ids[0]}").check()
        page.get_by_text("Redrive with a rate").click()
        page.get_by_label("Messages per second").fill("5")
        kill(site.server, "emails", 3, error="another failure")
        expect(page.get_by_role("link", name="another failure")).to_be_visible()
        expect(page.get_by_label(f"Select {ids[0]}")).to_be_checked()
        expect(page.get_by_label("Messages per second")).to_have_value("5")

    def test_a_message_that_dies_shows_why_and_can_be_redriven(self, page: Page, site: Served) -> None:
        id = send(site.server, "emails", 1)
        page.goto(f"/queue/emails/messages/{id}/details")
        settle(site.server, receive(site.server, "emails")[0], to_reject("no such address"))
        expect(page.get_by_role("heading", name="Why it died")).to_be_visible()
        page.get_by_role("button", name="Redrive").click()
        expect(page.get_by_role("status")).to_have_text("1 dead letter was redriven.")

    def test_the_first_dead_letter_takes_the_place_of_no_dead_letters(self, page: Page, site: Served) -> None:
        send(site.server, "emails", 1)
        page.goto("/queue/emails-dlq/")
        expect(page.get_by_text("No dead letters")).to_be_visible()
        settle(site.server, receive(site.server, "emails")[0], to_reject("no such address"))
        expect(page.get_by_role("link", name="no such address")).to_be_visible()
        expect(page.get_by_text("No dead letters")).to_have_count(0)

    def test_a_gateway_that_fails_for_a_moment_empties_no_page(self, page: Page, site: Served, faults: Faults) -> None:
        faults.allow("502")
        send(site.server, "emails", 1)
        failed: list[Route] = []

        def fail(route: Route) -> None:
            if "hx-request" in route.request.headers and not failed:
                failed.append(route)
                route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")
            else:
                route.fallback()

        page.route("**/queue/**", fail)
        page.goto("/queue/emails/")
        eventually(lambda: page.evaluate("0") == 0 and failed)
        send(site.server, "emails", 2)
        expect(page.locator(".tabs a").first).to_have_text(re.compile("2"))
        expect(page.locator("table.messages tbody tr")).to_have_count(2)

    def test_a_queue_that_is_deleted_says_so(self, page: Page, site: Served) -> None:
        send(site.server, "emails", 1)
        page.goto("/queue/emails/")
        expect(page.get_by_text("live ·")).to_be_visible()
        site.server.engine.driver.drive(site.server.engine.verbs.delete_queue("emails"))
        expect(page.get_by_role("heading", name="Nothing has been sent to this queue")).to_be_visible()

    def test_a_refused_search_is_not_asked_for_again_and_again(self, page: Page, site: Served, faults: Faults) -> None:
        faults.allow("404")
        send(site.server, "emails", 1)
        page.goto("/queue/emails/?id=nobody")
        expect(page.get_by_role("alert")).to_contain_text("There is no message nobody")
        complaints = len(faults._seen)
        send(site.server, "emails", 2)
        expect(page.locator(".tabs a").first).to_have_text(re.compile("2"))
        expect(page.get_by_role("alert")).to_be_visible()
        assert len(faults._seen) == complaints

    def test_escape_does_not_throw_away_what_was_typed(self, page: Page) -> None:
        page.goto("/queue/emails/send")
        page.get_by_label("Payload", exact=True).fill('{"to": "ada"}')
        page.keyboard.press("Escape")
        expect(page.get_by_label("Payload", exact=True)).to_have_value('{"to": "ada"}')


class TestAPageThatStaysOpen:
    def test_it_leads_to_the_login_when_its_session_ends(self, windows: Windows, locked_site: Served, faults: Faults) -> None:
        faults.allow("401")
        send(locked_site.server, "emails", 1)
        page = windows.open(locked_site.url)
        log_in(page, ADMIN)
        page.goto("/queue/emails/?state=leased")
        expect(page.get_by_text("live ·")).to_be_visible()
        elsewhere = page.context.new_page()
        elsewhere.goto("/")
        elsewhere.get_by_role("button", name="Log out").click()
        expect(elsewhere).to_have_url(re.compile("/login"))
        page.bring_to_front()  # a page that nobody sees is not told
        expect(page).to_have_url(re.compile("/login"))
        page.get_by_label("Key").fill(ADMIN)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/queue/emails/\?state=leased"))

    def test_a_form_that_is_sent_too_late_offers_the_login(self, windows: Windows, locked_site: Served, faults: Faults) -> None:
        faults.allow("401")
        page = windows.open(locked_site.url)
        log_in(page, ADMIN)
        page.goto("/queue/emails/send")
        elsewhere = page.context.new_page()
        elsewhere.goto("/sweeps")
        elsewhere.get_by_role("button", name="Log out").click()
        expect(elsewhere).to_have_url(re.compile("/login"))
        page.get_by_label("Payload", exact=True).fill("1")
        page.get_by_role("button", name="Send", exact=True).click()
        page.get_by_role("link", name="Log in").click()
        expect(page).to_have_url(re.compile("/login"))
        assert depths(Broker(locked_site.server.engine), "emails") == {}

    def test_it_survives_that_the_server_is_started_again(self, windows: Windows, tmp_path: Path, faults: Faults) -> None:
        faults.allow("no answer", "ERR_", "Failed to load")
        with serving(tmp_path, key("admin", "admin")) as server:
            served = with_pages(server)
            port = int(served.url.rpartition(":")[2])
            page = windows.open(served.url)
            log_in(page, ADMIN)
            expect(page.get_by_text("live ·")).to_be_visible()
        expect(page.get_by_text("not live")).to_be_visible()
        with serving(tmp_path, key("admin", "admin")) as server:
            with_pages(server, port=port)
            send(server, "emails", 1)
            expect(page.get_by_role("row").filter(has_text="emails")).to_be_visible()
            expect(page.get_by_text("live ·")).to_be_visible()
            windows.close()

    def test_going_back_shows_the_page_as_it_was_asked_for(self, page: Page, site: Served) -> None:
        id = send(site.server, "emails", {"to": "ada"}, key="k-1")
        page.goto("/queue/emails/")
        page.get_by_label("Key").fill("k-1")
        page.keyboard.press("Enter")
        page.locator(f"a[title='{id}']").click()
        expect(page.get_by_role("heading", name=f"Message {id}")).to_be_visible()
        page.go_back()
        expect(page.get_by_label("Key")).to_have_value("k-1")
        expect(page.locator(f"a[title='{id}']")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Key")).to_have_value("k-1")


def test_the_menu_tells_where_one_is(page: Page, site: Served) -> None:
    kill(site.server, "emails", 1)
    here = page.locator("header [aria-current]")
    for path, name in (("/", "Queues"), ("/queue/emails/", "Queues"), ("/queue/emails-dlq/", "Dead letters"), ("/dead", "Dead letters")):
        page.goto(path)
        expect(here).to_have_text([name])


def test_the_numbers_are_those_of_stats(page: Page, site: Served) -> None:
    server = site.server
    kill(server, "emails", 1, 2, 3)
    send_many(server, "emails", list(range(7)))
    receive(server, "emails", 2)
    send(server, "emails", "later", delay=600)
    stats = server.engine.insights.stats("emails")
    assert (stats.ready, stats.leased, stats.scheduled, stats.dead) == (5, 2, 1, 3)
    page.goto("/")
    expect(page.locator("#queue-emails td").nth(0)).to_have_text("5")
    assert [page.locator("#queue-emails td").nth(place).inner_text() for place in range(5)] == ["5", "1", "0", "2", "3"]
    page.goto("/queue/emails/")
    assert [each.split() for each in page.locator(".tabs a").all_inner_texts()][:5] == [
        ["ready", "5"],
        ["scheduled", "1"],
        ["blocked", "0"],
        ["leased", "2"],
        ["dead", "3"],
    ]
