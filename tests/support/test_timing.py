"""What a run says at its end: where the time went, and one line for a person."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests import conftest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest
def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("not today")
@pytest.mark.prove("it takes an hour")
def test_is_left_out(): assert False
"""


def ending(folder: Path, text: str, *options: str) -> list[str]:
    """The lines that a run of these tests prints, under the project's own conftest."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, "-p", "tests.conftest", *options, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines() + ran.stderr.splitlines()


def test_a_run_ends_with_its_times_by_folder_and_one_line(tmp_path: Path) -> None:
    lines = ending(tmp_path, TESTS)
    assert any(line.endswith("3 tests  in all") for line in lines)
    assert lines[-1].startswith("1 of 2 tests failed in ")
    assert lines[-1].endswith("(1 skipped): each is explained above.")


class Unexplained:
    """A test that is left out, as pytest collected it."""

    nodeid = "tests/a.py::test_a"

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [getattr(pytest.mark, name).mark]


def test_a_test_is_left_out_with_a_reason_only() -> None:
    with pytest.raises(pytest.UsageError, match="takes the reason why"):
        conftest.pytest_collection_modifyitems([cast(pytest.Item, Unexplained())])
