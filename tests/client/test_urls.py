"""Where the server is and who we are there, as the URL, the options and the environment say it."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Forbidden, InvalidArgument, TooManyFailures, Unauthorized
from rowq.client.address import Address
from rowq.client.exchange import Exchange, no_answer
from rowq.model.access import ApiKey, digest_of
from rowq.server.auth.authentication import Authenticator
from tests.support.blocking import LoopThread
from tests.support.server import Server

SECRET = "rowq_secret"  # noqa: S105  # of a server that ends with its test


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWQ_API_KEY", raising=False)


def asked(url: str, **options: Any) -> list[str]:
    """The lines of a request to the server behind a URL."""
    return Address(url, **options).request(Exchange(b"GET", "/v1/queues", None, no_answer)).decode().split("\r\n")


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://localhost", "/v1/queues", "localhost"),
        ("http://localhost:80/", "/v1/queues", "localhost"),
        ("http://localhost:8080", "/v1/queues", "localhost:8080"),
        ("https://Example.com", "/v1/queues", "example.com"),
        ("https://example.com:443/base/", "/base/v1/queues", "example.com"),
        ("http://127.0.0.1:9", "/v1/queues", "127.0.0.1:9"),
        ("http://[::1]:8080/a/b", "/a/b/v1/queues", "[::1]:8080"),
        ("http://bücher.example", "/v1/queues", "xn--bcher-kva.example"),
    ],
)
def test_a_url_says_where_to_ask(url: str, target: str, host: str) -> None:
    first, second, *_ = asked(url)
    assert (first, second) == (f"GET {target} HTTP/1.1", f"Host: {host}")


def test_a_name_and_a_secret_in_the_url_are_sent_as_basic() -> None:
    expected = base64.b64encode(b"worker:s/e c@ret").decode()
    assert f"Authorization: Basic {expected}" in asked("http://worker:s%2Fe%20c%40ret@localhost")


def test_an_api_key_is_sent_as_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWQ_API_KEY", "from-the-environment")
    assert f"Authorization: Bearer {SECRET}" in asked("http://localhost", api_key=SECRET)
    assert "Authorization: Bearer from-the-environment" in asked("http://localhost")


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWQ_API_KEY", "")
    assert not any(line.startswith("Authorization") for line in asked("http://localhost"))


BAD_URLS = [
    "http://a..b:8080",
    "http://" + "x" * 64 + ":8080",
    "http://",
    "http://:8080",
    "http://localhost:99999",
    "http://localhost:port",
    "http://localhost:0",
    "http://local host",
    "http://local\x00host",
    "http://[::1",
    "http://localhost/a b",
    "http://localhost/ü",
    "http://localhost#there",
    "http://localhost?colour=red",
    "http://localhost?timeout=soon",
    "http://localhost?timeout=0",
    "http://name@localhost",
    f"http://:{SECRET}@localhost",
]


@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("connect", [rowq.connect, rowq.connect_async])
def test_a_url_that_leads_nowhere_is_refused(connect: Any, url: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        connect(url)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("url", [url for url in BAD_URLS if "@" not in url])
@pytest.mark.parametrize("connect", [rowq.connect, rowq.connect_async])
def test_a_refusal_does_not_repeat_the_secret_of_a_url(connect: Any, url: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        connect(url.replace("//", f"//worker:{SECRET}@"))
    assert SECRET not in "".join(traceback.format_exception(error.value, limit=0))


@pytest.mark.parametrize("secret", ["", "two words", "line\r\nInjected: yes", "ü", 5])
def test_a_secret_that_is_no_secret_is_refused_and_not_repeated(secret: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        rowq.connect("http://localhost", api_key=secret)
    assert not secret or str(secret) not in str(error.value)


def test_credentials_are_given_once() -> None:
    with pytest.raises(InvalidArgument, match="one of them"):
        rowq.connect("http://name:secret@localhost", api_key=SECRET)


@pytest.mark.parametrize("option", [{"clock": rowq.ManualClock()}, {"actor": "ada"}, {"defaults": rowq.Settings()}])
def test_what_the_server_decides_is_refused(option: Any) -> None:
    with pytest.raises(InvalidArgument, match="where the server is started"):
        rowq.connect("http://localhost", **option)


def test_what_only_databases_need_is_ignored() -> None:
    with rowq.connect("http://localhost", maintenance=False, migrate=False, clock=None, actor=None, defaults=None) as broker:
        assert isinstance(broker, rowq.RemoteBroker)


def test_an_unknown_option_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="colour"):
        rowq.connect("http://localhost", colour="red")  # type: ignore[call-arg]


def test_a_database_takes_no_api_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="api_key"):
        rowq.connect(f"sqlite:///{tmp_path}/jobs.db", api_key=SECRET)


def test_a_server_is_not_migrated_from_afar() -> None:
    with pytest.raises(InvalidArgument, match="itself"):
        rowq.migrate("http://localhost")


@pytest.fixture
def guarded(loop: LoopThread, tmp_path: Path) -> Iterator[Server]:
    """A server with one key, which may send to the queue `open` only."""
    key = ApiKey(name="worker", scopes=("send",), queues=("open",))
    server = Server(loop, f"sqlite:///{tmp_path}/jobs.db", authenticator=Authenticator([(key, digest_of(SECRET))]), maintenance=False)
    yield server
    server.stop()


def test_both_ways_to_show_a_key_open_the_server(guarded: Server) -> None:
    for url, options in ((guarded.url.replace("//", f"//worker:{SECRET}@"), {}), (guarded.url, {"api_key": SECRET})):
        with rowq.connect(url, **options) as broker:  # type: ignore[arg-type]
            broker.send("open", "x")
            with pytest.raises(Forbidden):
                broker.send("shut", "x")


def test_a_wrong_key_is_told_and_not_tried_again(guarded: Server) -> None:
    with rowq.connect(guarded.url) as broker, pytest.raises(Unauthorized):
        broker.send("open", "x")
    with rowq.connect(guarded.url, api_key="wrong") as broker:
        for _ in range(20):
            with pytest.raises((Unauthorized, TooManyFailures)):
                broker.send("open", "x")
