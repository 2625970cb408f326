"""In `make test` each test of an API runs on one database, and all tests of an API together on all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cover import cover

_HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if str(item.path).startswith(_HERE)]
    for parameter in ("client", "topics", "kind", "database"):
        cover(here, parameter)
