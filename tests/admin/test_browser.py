"""The browser that other tests look through: it sees what goes wrong on a page, and a test that it saw that in fails."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.admin import conftest
from tests.admin.accessibility import assert_accessible
from tests.admin.browser import Faults, Windows, log_in
from tests.admin.conftest import Served
from tests.server.support import ADMIN, serving
from tests.support.patience import eventually

POLICY = b"default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'self'"
"""Like that of the real pages."""
STYLE = "@media (prefers-color-scheme: dark) { body { background: #000; color: #fff } .pale { color: #222 } }"
BODIES = {
    "sound": "<p>All is well. 🎉</p>",
    "style": "<p style='color: red'>Red?</p>",
    "unlabelled": "<input type=text>",
    "pale": "<p class=pale>Who can read this in the dark?</p>",
    "number": "<output>0</output>",
    "live": "<output>0</output>",
    "login": "<form method=post><label>Key <input type=password name=key></label></form>",
}
SCRIPTS = {
    "error": "console.error('it hurts')",
    "throw": "throw new Error('nobody caught me')",
    "reject": "Promise.reject(new Error('nobody awaited me'))",
    "eval": "try { eval('1') } catch (refused) { }",
    "missing": "fetch('/nothing')",
    "cut": "fetch('/half').catch(() => { })",
    "off": "const off = new AbortController(); fetch('/sound', {signal: off.signal}).catch(() => { }); off.abort()",
    "number": "document.querySelector('output').textContent = '42'",
    "live": "new EventSource('/events').onmessage = event => { document.querySelector('output').textContent = event.data }",
}


async def stand_in(scope: Any, receive: Any, send: Any) -> None:
    """A page for everything that can go wrong."""
    name, _, suffix = scope["path"][1:].partition(".")
    if scope["method"] == "POST":
        key = (await receive())["body"].decode().removeprefix("key=")
        await answer(send, 303, location=b"/sound" if key == ADMIN else b"/login")
    elif suffix == "js":
        await answer(send, 200, SCRIPTS[name], content_type=b"text/javascript")
    elif suffix == "css":
        await answer(send, 200, STYLE, content_type=b"text/css")
    elif name == "events":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 42\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
    elif name == "half":
        await answer(send, 200, "half", content_length=b"8")
    elif name in BODIES or name in SCRIPTS:
        links = "<link rel=icon href=data:,><link rel=stylesheet href=/a.css>" + f"<script defer src=/{name}.js></script>" * (
            name in SCRIPTS
        )
        text = f"<!doctype html><html lang=en><title>{name}</title>{links}<main><h1>{name}</h1>{BODIES.get(name, '')}</main>"
        await answer(send, 200, text, content_type=b"text/html; charset=utf-8", content_security_policy=POLICY)
    else:
        await answer(send, 404)


async def answer(send: Any, status: int, text: str = "", **headers: bytes) -> None:
    lines = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": text.encode(), "more_body": "content_length" in headers})


@pytest.fixture
def page(tmp_path: Path, windows: Windows) -> Iterator[Page]:
    with serving(tmp_path) as server:
        yield windows.open(server.serve_beside(stand_in))
        windows.close()


def test_a_sound_page_gives_no_cause_for_complaint(page: Page, faults: Faults) -> None:
    page.goto("/sound")
    expect(page.get_by_text("All is well. 🎉")).to_be_visible()
    assert_accessible(page)
    assert faults.found == []


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("error", "console: it hurts"),
        ("throw", "uncaught: .*nobody caught me"),
        ("reject", "uncaught: .*nobody awaited me"),
        ("style", "console: .*Content Security Policy"),
        ("eval", "console: .*Content Security Policy"),
        ("missing", "console: .* 404 .*/nothing"),
        ("cut", "no answer: GET .*/half"),
    ],
)
def test_the_browser_complains(page: Page, faults: Faults, name: str, complaint: str) -> None:
    page.goto(f"/{name}")
    eventually(lambda: page.title() and faults.found)
    with pytest.raises(AssertionError, match=complaint):
        faults.check()
    faults.allow(complaint, "/half")  # which the console tells of as well
    assert faults.found == []


def test_a_request_that_the_page_calls_off_is_no_fault(page: Page, faults: Faults) -> None:
    with page.expect_event("requestfailed"):
        page.goto("/off")
    assert faults.found == []


def test_a_live_page_may_be_left_and_closed(page: Page) -> None:
    page.goto("/live")
    expect(page.get_by_role("status")).to_have_text("42")
    page.goto("/sound")
    page.goto("/live")
    expect(page.get_by_role("status")).to_have_text("42")


def test_a_complaint_fails_the_test_that_it_came_from(browser: Browser) -> None:
    fixture = inspect.unwrap(conftest.faults)()
    windows = Windows(lambda: browser, next(fixture))
    windows.open("").goto("data:text/html,<script>console.error('it hurts')</script>")
    windows.close()
    with pytest.raises(AssertionError, match=r"the browser complained:\nconsole: it hurts"):
        next(fixture)


def test_an_input_without_a_label_is_found(page: Page) -> None:
    page.goto("/unlabelled")
    with pytest.raises(AssertionError, match=r"(?s)critical: label .*<input type=\"text\">"):
        assert_accessible(page)


def test_what_only_the_dark_hides_is_found(page: Page) -> None:
    page.goto("/pale")
    with pytest.raises(AssertionError, match=r"(?s)serious: color-contrast .*, dark\n.*pale") as found:
        assert_accessible(page)
    assert "light\n" not in str(found.value)


def test_every_page_has_cookies_of_its_own(windows: Windows, page: Page) -> None:
    page.context.add_cookies([{"name": "ForqSession", "value": "1", "url": "http://127.0.0.1"}])
    assert page.context.cookies() and not windows.open("http://127.0.0.1").context.cookies()


def test_a_page_may_be_read_without_scripts(windows: Windows, page: Page) -> None:
    page.goto("/number")
    expect(page.get_by_role("status")).to_have_text("42")
    plain = windows.open(page.url, java_script_enabled=False)
    plain.goto("/number")
    expect(plain.get_by_role("status")).to_have_text("0")


def test_logging_in_leads_on(page: Page) -> None:
    log_in(page, ADMIN)
    expect(page).to_have_title("sound")


def test_the_pages_of_a_server_without_keys_are_open_to_this_machine(windows: Windows, site: Served) -> None:
    page = windows.open(site.url)
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert_accessible(page)


def test_the_pages_of_a_server_with_keys_open_to_an_admin(windows: Windows, locked_site: Served, admin_page: Page) -> None:
    expect(admin_page).to_have_url(f"{locked_site.url}/")
    stranger = windows.open(locked_site.url)
    stranger.goto("/")
    expect(stranger).to_have_url(re.compile("/login"))
    assert_accessible(stranger)
