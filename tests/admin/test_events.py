"""The stream that tells open pages of changes: who gets it, what it says, and when it ends."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rowq.server.admin import events
from tests.admin.conftest import Served, with_pages
from tests.admin.visiting import Visitor
from tests.server.support import ADMIN, ask, serving
from tests.support.patience import eventually

pytestmark = pytest.mark.usefixtures("quick")


class Events:
    """The stream of changes, as a browser reads it."""

    def __init__(self, url: str, visitor: Visitor) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
        cookies = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        try:
            self._connection.request("GET", "/events", headers={"Cookie": cookies})
            self.response = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    def next(self) -> str | None:
        """The name of the next event; None at the end."""
        while line := self.response.readline().decode():
            if line.startswith("event: "):
                return line.removeprefix("event: ").strip()
        return None

    def is_over(self) -> bool:
        """Reads on to the end, which comes if it comes."""
        while self.next() is not None:
            pass
        return True

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._connection.close()


def status(site: Served) -> int:
    with Events(site.url, Visitor(site.url)) as stream:
        return stream.response.status


def test_a_change_is_told_and_silence_is_broken_by_pings(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PING_EVERY", 0.3)
    with Events(site.url, Visitor(site.url)) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.next() == "change"  # whatever was between the page and its stream
        assert stream.next() == "ping"
        ask(site.server, "POST", "/v1/queues/q/messages", {"payload": 1})
        eventually(lambda: stream.next() == "change")


def test_it_is_for_those_who_have_logged_in(locked_site: Served) -> None:
    assert status(locked_site) == 401


def test_it_ends_with_the_session(locked_site: Served) -> None:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    with Events(locked_site.url, visitor) as stream:
        assert stream.next() == "change"
        visitor.post("/logout")
        assert stream.is_over()


def test_it_ends_with_the_key(locked_site: Served) -> None:
    visitor = Visitor(locked_site.url)
    visitor.log_in(ADMIN)
    with Events(locked_site.url, visitor) as stream:
        assert stream.next() == "change"
        authenticator = locked_site.server.service.authenticator
        authenticator._own.clear()
        locked_site.server.call(lambda: authenticator.learn([]))
        assert stream.is_over()


def test_it_ends_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        site = with_pages(server)
        stream = Events(site.url, Visitor(site.url))
        assert stream.next() == "change"
    with stream:
        assert stream.is_over()


def test_it_can_only_be_read_as_a_stream(site: Served) -> None:
    assert Visitor(site.url).post("/events").status == 405


def test_there_are_not_too_many(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 1)
    with Events(site.url, Visitor(site.url)) as stream:
        assert stream.next() == "change"
        assert status(site) == 503
    eventually(lambda: status(site) == 200)
