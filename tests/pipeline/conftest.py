"""A database with some past, a lake beside it, and one Spark session for all that need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from tests.spark.conftest import pytest_generate_tests, quick_drivers, spark
from tests.support.database import Database, new_database

__all__ = ["pytest_generate_tests", "quick_drivers", "spark"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return new_database(request.param, tmp_path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """For what has nothing to do with the kind of database."""
    return new_database("sqlite", tmp_path).url


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker
