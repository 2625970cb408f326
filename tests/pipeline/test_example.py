"""The example of the pipeline runs as its README says."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowq
from tests.docs.page import ROOT

FOLDER = ROOT / "examples" / "orders"


Program = Callable[[str, Path], list[str]]


@pytest.fixture
def in_the_session_of_all_tests(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """What the program prints, without a process and a JVM of its own; it would end the session."""
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    main = runpy.run_path(str(FOLDER / "revenue.py"))["main"]

    def run(url: str, folder: Path) -> list[str]:
        main(url, folder)
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def in_a_process(quick_drivers: None) -> Program:
    def run(url: str, folder: Path) -> list[str]:
        command = [sys.executable, str(FOLDER / "revenue.py"), url, str(folder)]
        done = subprocess.run(command, capture_output=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().splitlines()

    return run


OF_ITS_OWN = pytest.mark.prove("two drivers, 40 s; the same in the session of all tests stands for it")


@pytest.mark.timeout(600)
@pytest.mark.prove("two streaming queries, 30 s; the tests of streams and the README stand for it")
@pytest.mark.parametrize("program", ["in_the_session_of_all_tests", pytest.param("in_a_process", marks=OF_ITS_OWN)])
def test_orders_become_sums_by_hour(program: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path / 'shop.db'}", tmp_path / "out"
    run: Program = request.getfixturevalue(program)
    load = [sys.executable, "-m", "rowq.cli.main", "--url", url, "load", "orders", str(FOLDER / "orders.jsonl"), "--raw"]
    assert subprocess.run(load, capture_output=True, text=True, timeout=280, check=True).stdout == "60 messages loaded\n"
    told = run(url, folder)
    assert told[0] == "09:00 Berlin     7 orders    335.81"
    assert sum(int(line.split()[2]) for line in told) == 40
    with rowq.connect(url, maintenance=False) as broker:
        assert take_sums(broker) == 40
        assert broker.stats("orders").depth == 0
        broker.send("orders", {"order": 1, "city": "Oslo", "amount": 1, "at": "2026-01-31T12:15:00Z"})
    assert len(run(url, folder)) == 9
    with rowq.connect(url, maintenance=False) as broker:
        assert take_sums(broker) == 20


def take_sums(broker: rowq.Broker) -> int:
    """How many orders the results tell of."""
    results = broker.receive("results", max=10)
    broker.ack_many(results)
    return sum(result.payload["orders"] for result in results)
