"""The page at /docs can be read by everybody, loads nothing, and what it tells people to type works."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rowq.server.api.documents import render
from rowq.server.api.openapi import describe
from rowq.server.api.route import EVENTS, Route
from rowq.server.api.routes import ROUTES
from tests.server.support import ADMIN, Answer, Stream, ask, filled, key, serving, streaming
from tests.support.server import Server

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page as what it holds; elements that are not closed in their order are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.commands: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._place = ""
        self._is_command = False
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.tags.append((tag, held))
        if tag not in VOID:
            self._open.append(tag)
        if tag in ("article", "section"):
            self._place = held.get("id") or ""
        if tag == "pre":
            self._is_command = held.get("class") == "copy"
            if self._is_command:
                self.commands.setdefault(self._place, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "pre":
            self._is_command = False

    def handle_data(self, data: str) -> None:
        if self._is_command:
            self.commands[self._place][-1] += data

    def all(self, attribute: str) -> list[str]:
        return [held[attribute] or "" for _, held in self.tags if attribute in held]


TEXT = render(describe(ROUTES, with_keys=True)).decode()
PAGE = Page(TEXT)


def run(server: Server, line: str) -> Answer | Stream:
    """What a shell and curl would make of it."""
    words = iter(shlex.split(line.replace("\\\n", " ")))
    assert next(words) == "curl"
    method, target, body, headers, is_endless = "", "", None, {}, False
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, value = next(words).replace("$ROWQ_API_KEY", ADMIN).split(": ")
                headers[name.lower()] = value
            case "-d":
                body = next(words).encode()
            case "-N":
                is_endless = True
            case _:
                assert word.startswith("$ROWQ/")
                target = word.removeprefix("$ROWQ")
    if is_endless:
        return Stream(server, target, headers.get("x-api-key"))
    return ask(server, method or ("GET" if body is None else "POST"), target, body, headers=headers)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, key("admin", "admin")) as server:
        yield server


def test_the_page_is_well_formed_and_says_its_language() -> None:
    assert PAGE.tags[0] == ("html", {"lang": "en"})
    assert [name for name, times in Counter(PAGE.all("id")).items() if times > 1] == []
    assert [tag for tag, _ in PAGE.tags].count("h1") == 1


def test_every_link_leads_somewhere() -> None:
    links = PAGE.all("href")
    assert {link for link in links if not link.startswith("#")} == {"/openapi.json"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(PAGE.all("id"))


def test_everything_described_is_on_the_page_and_linked() -> None:
    document = describe(ROUTES, with_keys=True)
    named = [route.operation for route in ROUTES]
    named += [f"schema-{name}" for name in document["components"]["schemas"]]
    named += [f"refusal-{name}" for name in document["components"]["responses"]]
    assert set(named) <= set(PAGE.all("id"))
    unlinked = {f"#{name}" for name in named} - set(PAGE.all("href"))
    assert not unlinked


def test_it_runs_no_script_and_loads_nothing() -> None:
    assert not {tag for tag, _ in PAGE.tags} & {"script", "link", "img", "iframe", "object", "form"}
    assert not PAGE.all("src") + PAGE.all("style") + PAGE.all("onclick")
    assert "url(" not in TEXT and "@import" not in TEXT


def test_what_scrolls_can_be_scrolled_from_the_keyboard() -> None:
    for tag, held in PAGE.tags:
        if tag == "pre" or held.get("class") == "scroll":
            assert held.get("tabindex") == "0"


def test_the_style_fits_light_and_dark_and_shows_where_the_focus_is() -> None:
    assert "color-scheme: light dark" in TEXT and ":focus-visible" in TEXT


def colours() -> dict[str, tuple[str, str]]:
    return {name: (light, dark) for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", TEXT)}


def contrast(one: str, other: str) -> float:
    """By the rule of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["text", "quiet", "link", "get", "change", "remove"])
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(name: str, theme: int) -> None:
    for ground in ("ground", "raised"):
        assert contrast(colours()[name][theme], colours()[ground][theme]) >= 4.5


def test_the_headers_allow_the_page_its_own_style_and_nothing_else(server: Server) -> None:
    answer = ask(server, "GET", "/docs", secret=ADMIN)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    style = re.search(r"<style>(.*)</style>", answer.body.decode(), re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"].split("; ")
    assert policy[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_it_takes_a_key_to_read_it(server: Server) -> None:
    refused = ask(server, "GET", "/docs")
    assert refused.problem == (401, "unauthorized")
    assert "Basic" in refused.headers["www-authenticate"]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Holds what the examples name; for those that only look."""
    with serving(tmp_path_factory.mktemp("full"), key("admin", "admin")) as server:
        filled(server)
        streaming(server)
        yield server


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_an_example_works_as_it_stands(route: Route, request: pytest.FixtureRequest) -> None:
    (line,) = PAGE.commands[route.operation]
    only_looks = route.method == "GET" and route.media != EVENTS
    server: Server = request.getfixturevalue("full" if only_looks else "server")
    if not only_looks and route.operation != "send":
        filled(server)
        streaming(server)
    answer = run(server, line)
    if isinstance(answer, Stream):
        assert (answer.response.status, answer.response.getheader("content-type")) == (200, f"{EVENTS}; charset=utf-8")
        answer.close()
    else:
        assert answer.status == route.status, answer.body


def test_the_first_steps_lead_through_a_message_s_life(server: Server) -> None:
    exports, send, receive, ack, reject, look, redrive = PAGE.commands["first-steps"]
    assert exports.split() == ["export", "ROWQ=http://localhost:8080", "export", "ROWQ_API_KEY=rowq_…"]
    sent, received = answered(run(server, send)), answered(run(server, receive))
    assert received["deliveries"][0]["id"] == sent["id"]
    settled = answered(run(server, ack.replace("RECEIPT", received["deliveries"][0]["receipt"])))
    assert settled["results"][0]["outcome"] == "done"

    failing = answered(run(server, send))["id"]
    hopeless = answered(run(server, receive))["deliveries"][0]["receipt"]
    assert answered(run(server, reject.replace("RECEIPT", hopeless)))["results"][0]["outcome"] == "done"
    assert [message["id"] for message in answered(run(server, look))["messages"]] == [failing]
    assert answered(run(server, redrive)) == {"count": 1}
    assert answered(run(server, receive))["deliveries"][0]["id"] == failing


def answered(answer: Answer | Stream) -> Any:
    assert isinstance(answer, Answer) and answer.status < 300
    return answer.json


def test_without_keys_the_page_asks_for_none(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        page = Page(ask(server, "GET", "/docs").body.decode())
    assert page.commands["first-steps"][0] == f"export ROWQ={server.url}"
    assert not [line for lines in page.commands.values() for line in lines if "KEY" in line]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("localhost:9000", "localhost:9000"),
        ("[::1]:9000", "[::1]:9000"),
        ("queue.example.com", "localhost:8080"),
        ("<b>", "localhost:8080"),
    ],
)
def test_the_first_steps_go_to_where_the_page_was_asked_for(server: Server, host: str, said: str) -> None:
    page = ask(server, "GET", "/docs", secret=ADMIN, headers={"host": host}).body.decode()
    assert f"export ROWQ=http://{said}\n" in page


def test_what_comes_from_the_description_is_escaped() -> None:
    document = json.loads(json.dumps(describe(ROUTES, with_keys=True)).replace("Depth, settings, pausing", "<script>"))
    assert "<script" not in render(document).decode()


def test_every_path_in_a_command_is_one_of_the_server(server: Server) -> None:
    for lines in PAGE.commands.values():
        for line in lines:
            if line.startswith("curl"):
                target = next(word for word in shlex.split(line.replace("\\\n", " ")) if word.startswith("$ROWQ"))
                assert urlsplit(target.removeprefix("$ROWQ")).path.startswith(
                    ("/v1/", "/healthcheck", "/readyz", "/metrics", "/openapi.json", "/docs")
                )
