"""Texts that would be markup, through everything that a page shows: none of them becomes an element, an attribute or a link."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from rowq.engine.arguments import to_reject
from rowq.model.message import Draft
from rowq.server.admin.pages import PAGES
from tests.admin.conftest import Served, with_pages
from tests.admin.visiting import Shown, Visitor
from tests.security.hostile import ALL, MARKUP
from tests.server.support import serving
from tests.support.server import Server

_LINKS = ("href", "src", "action", "formaction", "hx-get", "hx-post", "hx-delete", "data")
_PAGES = [page.path for page in PAGES if page.method == "GET" and not page.streams]


class Foreign(HTMLParser):
    """What a page holds that it must not: scripts in it, handlers, links to elsewhere, elements that ours have not."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag in ("iframe", "object", "embed", "base") or (tag == "script" and not said.get("src", "").startswith("/static/")):
            self.found.append(self.get_starttag_text() or tag)
        for name, value in said.items():
            if name.startswith("on") or (
                name in _LINKS and not value.startswith(("/", "?", "#", "data:image/")) and value not in ("", "this")
            ):
                self.found.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script" and data.strip():
            self.found.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("markup")) as server:
        for text in ALL:
            _say(server, text)
        yield with_pages(server)


def _say(server: Server, text: str) -> None:
    """Wherever somebody may say something: a message that waits, one that is held, and a dead letter."""
    drive, verbs = server.engine.driver.drive, server.engine.verbs
    for queue in ("dead", "held", "ready"):
        draft = Draft({text: text}, headers={f"x{text}": text}, key=f"{queue}{text}", group=f"{queue}{text}")
        drive(verbs.send_many(queue, [draft, text], {}))
    for delivery in drive(verbs.receive("dead", 2, 0, 60, text, None, None)):
        drive(verbs.settle_many([delivery], to_reject(text)))
    drive(verbs.receive("held", 2, 0, 3600, text, None, None))


@pytest.mark.parametrize("path", _PAGES)
def test_a_page_shows_every_text_as_a_text(site: Served, path: str) -> None:
    insights, shown = site.server.engine.insights, list[Shown]()
    for queue, state in (("dead", "dead"), ("dead-dlq", "dead"), ("held", "leased"), ("ready", "ready")):
        messages = insights.browse(queue.removesuffix("-dlq"), state=state, limit=200)
        for message in messages[-8:] if "{id}" in path else messages[:1]:
            target = path.format(queue=queue, id=message.id)
            separator = "?state=" + state if path.startswith("/queue/{queue}") and "{id}" not in path else ""
            shown.append(Visitor(site.url).get(target + separator))
    assert len(shown) >= 4, "something of each kind is there to be shown"
    for answer in shown:
        assert answer.status < 500
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert Foreign(answer.text).found == [], path
        elif "payload" in path:
            assert answer.headers["content-disposition"].startswith("attachment"), "what somebody sent is saved, and not shown"


@pytest.mark.parametrize(
    "text",
    [MARKUP[0], *(pytest.param(text, marks=pytest.mark.prove("112 pages each; the first text stands for them")) for text in MARKUP[1:4])],
)
def test_what_stands_in_an_address_is_a_text(site: Served, text: str) -> None:
    visitor = Visitor(site.url)
    for fields in ("key", "group", "text", "q", "sort", "after", "page", "queue", "name", "next", "reason", "fingerprint", "id", "state"):
        for path in ("/", "/queue/dead/", "/dead", "/config", "/actions", "/consumers", "/login", "/queue/ready/send"):
            answer = visitor._ask("GET", f"{path}?{_encoded(fields, text)}", None, {}, {})
            assert answer.status < 500 and Foreign(answer.text).found == [], (path, fields)
    assert Foreign(visitor.get(f"/{_encoded('', text)[1:]}").text).found == []


def _encoded(name: str, text: str) -> str:
    return urlencode({name: text})


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<script src='https://evil.example/x.js'></script>",
        "<p onclick='alert(1)'>",
        "<a href='javascript:alert(1)'>",
        "<form action='https://evil.example'>",
        "<iframe src='/x'>",
        "<base href='/'>",
    ],
)
def test_what_is_foreign_is_found(text: str) -> None:
    assert Foreign(f"<main>{text}</main>").found


def test_what_is_ours_is_not_foreign() -> None:
    assert not Foreign("<script src='/static/x.js'></script><a href='/queue/a?state=dead'>&lt;script&gt;</a>").found
