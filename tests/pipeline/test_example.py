"""The example of the pipeline runs as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rowq
from tests.docs.page import ROOT

FOLDER = ROOT / "examples" / "orders"


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quick_drivers")
def test_orders_become_sums_by_hour(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"

    def run(*command: str) -> list[str]:
        environment = {**os.environ, "ROWQ_URL": url}
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().splitlines()

    assert run("-m", "rowq.cli.main", "load", "orders", str(FOLDER / "orders.jsonl"), "--raw") == ["60 messages loaded"]
    told = run(str(FOLDER / "revenue.py"), url, "out")
    assert told[0] == "09:00 Berlin     7 orders    335.81"
    assert sum(int(line.split()[2]) for line in told) == 40
    with rowq.connect(url, upkeep=False) as broker:
        assert take_sums(broker) == 40
        assert broker.stats("orders").depth == 0
        broker.send("orders", {"order": 1, "city": "Oslo", "amount": 1, "at": "2026-01-31T12:15:00Z"})
    assert len(run(str(FOLDER / "revenue.py"), url, "out")) == 9
    with rowq.connect(url, upkeep=False) as broker:
        assert take_sums(broker) == 20


def take_sums(broker: rowq.Broker) -> int:
    """How many orders the results tell of."""
    results = broker.receive("results", max=10)
    broker.ack_many(results)
    return sum(result.payload["orders"] for result in results)
