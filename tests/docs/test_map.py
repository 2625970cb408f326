"""The map of the house shows the house: every layer, every table, every decision, this version."""

from __future__ import annotations

import re
import tomllib

import pytest

import rowq
from tests.docs.page import ROOT, Page, page, pages

ARCHITECTURE = page("ARCHITECTURE.md")
DECISIONS = [each for each in pages() if re.match(r"docs/decisions/\d", each.path)]
SCHEMA = (ROOT / "src/rowq/store/sql/schema.sqlite.sql").read_text(encoding="utf-8")


def test_the_map_shows_the_layers_of_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(each["layers"] for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    drawn = [block.text.splitlines() for block in ARCHITECTURE.blocks]
    assert any([line.split("  ")[0].strip() for line in lines] == layers for lines in drawn), f"draw these layers, a line each: {layers}"


def test_the_map_names_every_table() -> None:
    tables = set(re.findall(r"CREATE TABLE (\w+)", SCHEMA))
    assert {name for row in ARCHITECTURE.table("table") for name in re.findall(r"`(rowq_\w+)`", row[0])} == tables


def test_the_reading_order_names_files_that_exist() -> None:
    files = re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.section("Reading order"))
    assert files
    missing = [file for file in files if not (ROOT / "src/rowq" / file).is_file()]
    assert not missing


def test_decisions_are_numbered_from_one_on() -> None:
    assert [int(each.path.split("/")[-1][:4]) for each in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.path)
def test_a_decision_has_a_context_a_decision_and_consequences(decision: Page) -> None:
    assert decision.headings[1:] == ["Context", "Decision", "Consequences"]


def test_the_changelog_tells_of_this_version() -> None:
    assert any(heading.startswith(f"[{rowq.__version__}]") for heading in page("CHANGELOG.md").headings)
