"""One Spark session for all tests of a worker: it takes seconds to start, and forgets nothing that matters between tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowq
import rowq.spark
from tests.support.cover import covering
from tests.support.database import KINDS, Database, new_database
from tests.support.jvm import hasten_drivers


@pytest.fixture(scope="session")
def quick_drivers() -> None:
    hasten_drivers()


@pytest.fixture(scope="session")
def spark(quick_drivers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.pyspark.jvmStacktrace.enabled": "true",  # with its log off, only this names the cause of a failure
    }
    spark = rowq.spark.session("local[2]", "rowq tests", **settings)
    spark.sparkContext.setLogLevel("OFF")  # what is provoked here would fill pages
    yield spark
    spark.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every database where it takes a moment; where Spark itself runs, the file or one server, which are read in two ways."""
    if "database" in metafunc.fixturenames:
        is_quick = not {"spark", "start"} & set(metafunc.fixturenames)
        kinds = KINDS if is_quick else covering(metafunc, KINDS[:2])
        metafunc.parametrize("database", kinds, indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return new_database(request.param, tmp_path)


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def broker(url: str) -> Iterator[rowq.Broker]:
    with rowq.connect(url) as broker:
        yield broker
