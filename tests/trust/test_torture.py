"""The torture in small: everybody takes part, some of everything fails, and nothing is violated. `make torture` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from trust.torture.database import KINDS
from trust.torture.runner import Goals, run
from trust.torture.scene import new_folder

SHORT = Goals(operations=3_000, faults=10, seconds=12)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_violated(kind: str, tmp_path: Path) -> None:
    """How much is done in the time depends on the machine, and is not at stake here."""
    report = run(kind, 1, SHORT, new_folder(tmp_path, kind, 1), advance=lambda done: None)
    assert report.violations == []
    assert report.faults
    assert report.operations
    assert report.checked
