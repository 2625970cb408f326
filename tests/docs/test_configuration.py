"""docs/reference/configuration.md lists all that a server can be told, and every variable that is looked at."""

from __future__ import annotations

import ast
import re

import pytest

from rowq.server.compat import registry
from rowq.server.config import SCALARS, Config, _Key
from rowq.server.sources import _OTHER_VARIABLES
from tests.docs.page import ROOT, page

REFERENCE = page("docs/reference/configuration.md")
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
LISTED = {name for row in REFERENCE.table("variable") for name in re.findall(r"`([A-Z_]+)`", row[0])}


def test_every_setting_is_listed_with_its_default() -> None:
    listed = {row[0].strip("`"): ast.literal_eval(row[1].strip("`")) for row in REFERENCE.table("setting")}
    assert listed == {name: getattr(Config(), name) for name in SCALARS}


def test_every_variable_that_is_looked_at_is_listed() -> None:
    named = set(re.findall(r"\bROWQ_[A-Z]+(?:_[A-Z]+)*\b", SOURCES)) | {f"ROWQ_{name}" for name in _OTHER_VARIABLES}
    asked = set(re.findall(r"""environ(?:\.get\(|\.setdefault\(|\[)"(\w+)\"""", SOURCES))
    settings = {f"ROWQ_{name.upper()}" for name in SCALARS}
    assert asked >= {"ROWQ_URL", "JAVA_HOME"}
    assert LISTED - {"ROWQ_"} == (named | asked) - (settings - {"ROWQ_URL"})


def test_a_variable_that_is_shown_as_an_example_is_a_setting() -> None:
    named = set(re.findall(r"\bROWQ_[A-Z]+(?:_[A-Z]+)*\b", REFERENCE.text))
    assert not named - LISTED - {f"ROWQ_{name.upper()}" for name in SCALARS}


@pytest.mark.parametrize("api", registry.NAMES)
def test_every_option_of_an_api_is_listed(api: str) -> None:
    row = next(row for row in REFERENCE.table("table of the file") if row[0] == f"`[compat.{api}]`")
    assert re.findall(r"`(\w+)`", row[1]) == list(type(registry.to_options(api, {}, "nowhere")).__struct_fields__)


def test_every_field_of_a_key_is_listed() -> None:
    row = next(row for row in REFERENCE.table("table of the file") if row[0] == "`[[server.keys]]`")
    assert set(re.findall(r"`(\w+)`", row[1])) == set(_Key.__struct_fields__)
