"""The list of what the documents of other queues disagree about: every line of it has a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_disagreement_has_a_test_that_carries_its_number() -> None:
    page = (ROOT / "docs" / "reference" / "compatible-apis.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+b?) \|", page, re.MULTILINE)
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    tested = {number.lstrip("0") for text in tests for number in re.findall(r"def test_c(\d+b?)_", text)}
    assert len(listed) == len(set(listed)) > 50
    assert tested == set(listed)
