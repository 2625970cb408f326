"""The examples run, end by themselves, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LAST_LINE = {
    "outbox.py": "2 orders, 2 mails",
    "workers.py": "nothing left to do",
}


def test_every_example_is_known() -> None:
    assert {path.name for path in EXAMPLES} == set(LAST_LINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_ends_by_itself(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == LAST_LINE[example.name]
    assert list(tmp_path.iterdir()) == []
