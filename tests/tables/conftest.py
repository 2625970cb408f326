"""A database of every kind, with a broker, its tables and a publisher on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import rowq
from rowq.spark.publish import Publisher, open_publisher
from rowq.spark.tables import Tabular, open_tabular
from tests.rivals.conftest import database, kind, url
from tests.rivals.process import Start, starting

__all__ = ["database", "kind", "url"]


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url, maintenance=False) as broker:
        yield broker


@pytest.fixture
def tabular(broker: rowq.Broker, url: str) -> Iterator[Tabular]:
    with open_tabular(url) as tabular:
        yield tabular


@pytest.fixture
def publisher(broker: rowq.Broker, url: str) -> Iterator[Publisher]:
    with open_publisher(url, actor="writer") as publisher:
        yield publisher


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path, "tests.tables") as start:
        yield start
