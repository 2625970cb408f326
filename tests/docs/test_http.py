"""docs/reference/http.md tells every field that the server takes and gives, as its own description does."""

from __future__ import annotations

import re

import pytest

from rowq.model.queue import SettingsOptions
from rowq.wire import SettingsBody
from tests.docs.http_fields import ANSWERS, REQUESTS, answers, requests
from tests.docs.page import page
from tests.server.promises import DOCUMENT

HTTP = page("docs/reference/http.md")


@pytest.mark.parametrize(("title", "rows"), [(REQUESTS[0], requests()), (ANSWERS[0], answers())], ids=["requests", "answers"])
def test_every_field_is_listed(title: str, rows: list[list[str]]) -> None:
    assert len(rows) > 20
    listed = HTTP.table(title)
    assert not [row for row in rows if row not in listed], "`python -m tests.docs.http_fields` prints what is missing"
    assert listed == rows


def test_settings_have_the_names_of_their_own_page() -> None:
    on_the_wire = {name.removesuffix("_ms") for name in SettingsBody.__struct_fields__}
    assert on_the_wire == set(SettingsOptions.__annotations__)


@pytest.mark.parametrize("policy", ["Delays", "Linear", "Exponential"])
def test_every_part_of_a_backoff_is_named(policy: str) -> None:
    section = HTTP.section("Fields")
    missing = [name for name in DOCUMENT["components"]["schemas"][policy]["properties"] if not re.search(rf'"{name}"', section)]
    assert not missing
