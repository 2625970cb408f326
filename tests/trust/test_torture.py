"""The torture in small: everybody takes part, some of everything fails, and nothing is violated. `make torture` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from trust.torture import runner, scene
from trust.torture.database import KINDS
from trust.torture.runner import Goals, run
from trust.torture.scene import new_folder, opened

SHORT = Goals(operations=3_000, faults=10, seconds=12)
SHORTEST = Goals(operations=100, faults=1, seconds=60)
FEW = (("producer", "library"), ("consumer", "http"), ("operator", "sql"))


@pytest.mark.prove("20 s on each database; test_nothing_is_violated_by_one_of_each_role_and_one_fault stands for it")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_violated(kind: str, tmp_path: Path) -> None:
    """How much is done in the time depends on the machine, and is not at stake here."""
    assert_good(kind, SHORT, tmp_path)


@pytest.mark.timeout(300)
def test_nothing_is_violated_by_one_of_each_role_and_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "_SERVERS", 1)
    monkeypatch.setattr(runner, "opened", lambda kind, folder, seed: opened(kind, folder, seed, FEW))
    assert_good("sqlite", SHORTEST, tmp_path)


def assert_good(kind: str, goals: Goals, folder: Path) -> None:
    report = run(kind, 1, goals, new_folder(folder, kind, 1), advance=lambda done: None)
    assert report.violations == []
    assert report.faults
    assert report.operations
    assert report.checked
