"""What is imported when, and what is said where something is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from pyspark.sql import SparkSession

import rowq.spark
from rowq import InvalidArgument


@pytest.mark.parametrize("module", ["rowq", "rowq.cli.main", "rowq.spark", "rowq.spark.ledger"])
def test_whoever_does_not_use_spark_does_not_pay_for_it(module: str) -> None:
    look = f"import sys, {module}; print([name for name in ('pyspark', 'pyarrow') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_a_missing_package_is_named_with_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("rowq.spark.session")  # the package has a function of this name
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(InvalidArgument, match=rf"needs {package}, which is not installed: pip install 'rowq\[spark\]'"):
        rowq.spark.session()


def test_a_session_is_made_for_queues(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert rowq.spark.session("local[2]") is spark
