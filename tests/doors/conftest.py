"""In `make test` each test of a door runs on one database, and all tests of a door together on all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cover import cover


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for parameter in ("client", "topics", "kind", "database"):
        cover(here, parameter)
