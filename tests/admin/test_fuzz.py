"""Whatever stands in an address or in a form: a page, or a refusal that says why. Never an error of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowq.model.queue import SETTINGS
from rowq.server.admin import jobs
from rowq.server.admin.pages import PAGES
from tests.admin.conftest import Served, with_pages
from tests.admin.letters import kill
from tests.admin.visiting import Visitor
from tests.support.blocking import LoopThread
from tests.support.database import KINDS, new_database
from tests.support.server import Server

ODD = (
    "",
    " ",
    "\0",
    "a\0b",
    "\r\nset-cookie: a=b",
    "..",
    "%",
    "%00",
    "🐇" * 300,
    "\u202e",
    "<script>alert(1)</script>",
    "\"'><img src=x>",
    "javascript:alert(1)",
    "//evil.example",
    "\\",
    "-1",
    "1e400",
    "nan",
    "9" * 30,
    "٣",
    "null",
    "[" * 5_000,
    '{"a": 1}',
    "0001-01-01T00:00",
    "9999-12-31T23:59:59.999999+00:00",
    "x" * 10_000,
    "emails-dlq-dlq",
    "emails.dlq",
)
FIELDS = (
    *("state", "key", "group", "text", "after_time", "before_time", "after", "id", "page", "sort", "name", "q", "queue", "as", "next"),
    *("reason", "fingerprint", "here", "all", "one", "rate", "limit", "confirmed", "value", "default", "removal", "kind", "payload"),
    *("headers", "priority", "delay", "ttl", "deadline", "max_attempts", "backoff", "keys_if_undelivered"),
)
SENSE = ("yes", "ready", "dead", "finished", "json", "text", "base64", "1", "10s", "rejected", *SETTINGS)

_PLACES = re.compile(r"{(\w+)}")


@pytest.fixture(scope="module", params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    loop = LoopThread()
    try:
        server = Server(loop, new_database(request.param, tmp_path_factory.mktemp("fuzz")).url)
        try:
            kill(server, "emails", *range(3))
            yield with_pages(server)
        finally:
            server.stop()
    finally:
        loop.stop()


values = st.sampled_from(ODD) | st.sampled_from(SENSE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
fields = st.dictionaries(st.sampled_from(FIELDS) | values, values, max_size=6)


_UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is typed with a rate is not waited for."""
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)


@settings(max_examples=60, deadline=None, suppress_health_check=_UNCHECKED)
@given(data=st.data())
def test_nothing_that_is_typed_breaks_a_page(site: Served, data: st.DataObject) -> None:
    does_not_break(site, data)


@pytest.mark.prove("10 s of examples on each database; test_nothing_that_is_typed_breaks_a_page stands for it")
@settings(max_examples=250, deadline=None, suppress_health_check=_UNCHECKED)
@given(data=st.data())
def test_nothing_of_much_that_is_typed_breaks_a_page(site: Served, data: st.DataObject) -> None:
    does_not_break(site, data)


def does_not_break(site: Served, data: st.DataObject) -> None:
    page = data.draw(st.sampled_from([page for page in PAGES if not page.streams and page.path != "/logout"]))
    visitor = Visitor(site.url)
    visitor.get("/")
    path = page.path
    for name in _PLACES.findall(page.path):
        real = ("emails", "emails-dlq", "orders") if name == "queue" else ("LETTER", "expired", "nowhere")
        path = path.replace(f"{{{name}}}", quote(data.draw(st.sampled_from(real) | values, label=name), safe=""))
    path = path.replace("LETTER", _letter(site))
    query = urlencode(data.draw(fields, label="query"))
    target = f"{path}?{query}" if query else path
    accept: dict[str, Any] = {} if data.draw(st.booleans()) else {"accept": "*/*"}
    if page.method == "GET":
        shown = visitor.get(target, fragment=data.draw(st.booleans()), **accept)
    else:
        shown = visitor._send(page.method, target, data.draw(fields, label="form"), None, accept)
    assert shown.status < 500, shown
    if shown.headers.get("content-type", "").startswith("text/html"):
        assert "<script>alert" not in shown.text and "<img src=x>" not in shown.text


def _letter(site: Served) -> str:
    """The id of a dead letter, as long as nobody has deleted them all."""
    found = site.server.engine.insights.browse("emails", state="dead", limit=1)
    return found[0].id if found else "gone"
