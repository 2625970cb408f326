"""What holds for every page, in every state that somebody meets it in: axe has nothing against it, it fits a phone, and no content gets
the better of it. A page that is new has to be listed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus

import pytest
from playwright.sync_api import Page, expect

from rowq.model.lifecycle import Ack
from rowq.server.admin import jobs
from rowq.server.admin.pages import PAGES
from rowq.spark.ledger import Ledger
from tests.admin.accessibility import assert_accessible
from tests.admin.browser import Faults, Windows, log_in
from tests.admin.conftest import Served
from tests.admin.letters import kill
from tests.admin.working import NASTY, configure, receive, send, send_many, settle
from tests.server.support import ADMIN
from tests.support.server import Server

LONG = "q" * 64
"""As long as the name of a queue may be, and without a place to break it."""
_NAME = "<b onmouseover=alert(1)>🎉" + "k" * 200

PATHS = {
    "/": ("/", "/?name=nothing-like-it", "/?sort=dead"),
    "/dead": ("/dead",),
    "/consumers": ("/consumers", "/consumers?queue=nobody"),
    "/streams": ("/streams",),
    "/sweeps": ("/sweeps",),
    "/actions": ("/actions", "/actions?queue=nobody"),
    "/health": ("/health",),
    "/config": ("/config", "/config?q=nothing-like-it"),
    "/queue/{queue}": (f"/queue/{LONG}",),
    "/queue/{queue}/": (
        f"/queue/{LONG}/",
        "/queue/never-sent-to/",
        f"/queue/{LONG}-dlq/",
        "/queue/none-dlq/",
        f"/queue/{LONG}/?state=leased",
    ),
    "/queue/{queue}/messages": (f"/queue/{LONG}/messages?state=finished", f"/queue/{LONG}/messages?text=nothing-like-it"),
    "/queue/{queue}/messages/{id}/details": tuple(
        f"/queue/{LONG}/messages/{id}/details" for id in ("ready", "leased", "bytes", "letter", "finished", "long")
    ),
    "/queue/{queue}/messages/{id}/resend": (f"/queue/{LONG}/messages/letter/resend",),
    "/queue/{queue}/send": (f"/queue/{LONG}/send",),
    "/queue/{queue}/purge": (f"/queue/{LONG}/purge",),
    "/queue/{queue}/settings": (f"/queue/{LONG}/settings",),
}
"""By page, where to look at it."""
ELSEWHERE = {
    "/login": "before somebody is logged in",
    "/jobs/{id}": "once there is a job",
    "/events": "no page",
    "/queue/{queue}/messages/{id}/payload": "no page",
}
EACH = [path for paths in PATHS.values() for path in paths]
ONE_OF_EACH = [paths[0] for paths in PATHS.values()]


def fill(server: Server) -> None:
    """A queue with something of everything, all of it as unwieldy as it may be."""
    name = NASTY.replace("\x1b", "")
    configure(server, LONG, keep="body", schema=None)
    configure(server, "none")
    send(server, LONG, 1, id="finished", priority=9)
    settle(server, receive(server, LONG, consumer=NASTY)[0], Ack())
    kill(server, LONG, {NASTY: NASTY}, error=NASTY + "x" * 5_000, id="letter", key=_NAME, headers={name: NASTY})
    send(server, LONG, "w" * 200_000, id="leased", group=_NAME)
    receive(server, LONG, consumer=NASTY * 3)
    send(server, LONG, {"text": "ü" * 100_000}, id="long", group=_NAME)
    send(server, LONG, bytes(range(256)) * 1024, id="bytes")
    send_many(server, LONG, [NASTY, [NASTY] * 50])
    send(server, LONG, {"deep": [[[{NASTY: None}]]]}, id="ready", key=_NAME + "2", headers={name: "v" * 500}, ttl=900, deadline=900)
    ledger = Ledger(server.engine)
    ledger.take("s" * 60, ledger.claim("s" * 60, [LONG, "orders"]).epoch, 0, 1)


def check(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert re.search(r"\S · rowq$", page.title())
    assert_accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert too_wide <= 0, f"{page.url} can be pushed {too_wide} px to the side on a phone"
    page.set_viewport_size({"width": 1280, "height": 800})


def test_every_page_is_listed() -> None:
    assert {page.path for page in PAGES if page.method == "GET"} == {*PATHS, *ELSEWHERE}


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(ONE_OF_EACH, id="one of each"),
        pytest.param(EACH, id="all", marks=pytest.mark.prove("30 s of a browser; one of each page stands for it")),
    ],
)
def test_everybody_can_use_each(windows: Windows, locked_site: Served, faults: Faults, paths: list[str]) -> None:
    fill(locked_site.server)
    page = windows.open(locked_site.url)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    log_in(page, ADMIN)
    for path in paths:
        answer = page.goto(path)
        assert answer is not None and answer.status == HTTPStatus.OK, path
        check(page)


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(["/", "/dead"], id="two"),
        pytest.param(
            ["/consumers", "/streams", "/actions", "/config"],
            id="the others",
            marks=pytest.mark.prove("5 s of a browser; the two that are looked at most stand for them"),
        ),
    ],
)
def test_everybody_can_use_what_is_empty(page: Page, paths: list[str]) -> None:
    for path in paths:
        page.goto(path)
        check(page)


def _confirm_deleting(page: Page) -> None:
    page.goto(f"/queue/{LONG}-dlq/")
    page.get_by_role("button", name="Delete all").click()
    expect(page.get_by_role("heading", name="Delete all dead letters?")).to_be_visible()


def _confirm_redriving(page: Page) -> None:
    page.goto(f"/queue/{LONG}-dlq/")
    page.get_by_role("button", name="Redrive these").first.click()
    expect(page.get_by_role("heading", name="Redrive these dead letters?")).to_be_visible()


def _be_told(page: Page) -> None:
    page.goto(f"/queue/{LONG}/")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("is paused")


def _send_nonsense(page: Page) -> None:
    page.goto(f"/queue/{LONG}/send")
    page.get_by_label("Payload", exact=True).fill("{" + NASTY)
    page.get_by_label("Delay").fill(_NAME)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Correct the errors")


def _set_nonsense(page: Page) -> None:
    page.goto(f"/queue/{LONG}/settings")
    page.get_by_label("max_attempts", exact=True).fill(_NAME)
    page.get_by_role("button", name="Save max_attempts").click()
    expect(page.get_by_role("alert")).to_be_visible()


def _purge_nothing(page: Page) -> None:
    page.goto(f"/queue/{LONG}/purge")
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose what to delete")


def _find_nothing(page: Page) -> None:
    page.goto(f"/queue/{LONG}/")
    page.get_by_label("Id", exact=True).fill(_NAME[:200])
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("There is no message")


def _be_lost(page: Page) -> None:
    page.goto("/nowhere/" + "x" * 300)
    expect(page.get_by_role("alert")).to_contain_text("there is no page")


def _be_refused(page: Page) -> None:
    page.goto("/queue/no%20name%3Cb%3E/")
    expect(page.get_by_role("alert")).to_contain_text("is not a queue name")


STATES = (
    _confirm_deleting,
    _confirm_redriving,
    _be_told,
    _send_nonsense,
    _set_nonsense,
    _purge_nothing,
    _find_nothing,
    _be_lost,
    _be_refused,
)


@pytest.mark.parametrize(
    "states",
    [
        pytest.param(STATES[::3], id="a third"),
        pytest.param(STATES, id="all", marks=pytest.mark.prove("10 s of a browser; a third of the states stands for it")),
    ],
)
def test_everybody_can_use_what_comes_of_it(site: Served, page: Page, faults: Faults, states: Sequence[Callable[[Page], None]]) -> None:
    faults.allow("status of 40")
    fill(site.server)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for come_to in states:
        come_to(page)
        check(page)


def test_everybody_can_use_a_job(site: Served, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PATIENCE", 0)
    kill(site.server, LONG, *range(50))
    page.goto(f"/queue/{LONG}-dlq/")
    page.get_by_text("Redrive with a rate").click()
    page.get_by_label("Messages per second").fill("0.01")
    page.get_by_role("button", name="Redrive", exact=True).first.click()
    page.get_by_role("button", name="Redrive all dead letters").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    check(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_contain_text("Cancelled")
    check(page)


def test_everybody_can_log_in(windows: Windows, locked_site: Served, faults: Faults) -> None:
    faults.allow("status of 401")
    page = windows.open(locked_site.url)
    page.goto("/login")
    check(page)
    page.get_by_label("Key").fill(_NAME)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    check(page)
