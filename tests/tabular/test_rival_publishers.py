"""Publishers that are killed in the middle of it, and publishers that get in each other's way."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

from rowq import Broker
from tests.rivals.process import ROOT, Start, kill_at_random
from tests.support.tables import faults_of

VERSIONS, COUNT = 25, 120


def test_a_publisher_that_is_killed_again_and_again_publishes_every_version_once(broker: Broker, url: str, start: Start) -> None:
    choose = random.Random(5)
    for _ in range(4):
        kill_at_random([start("publishing", url, "series", "w", 10_000, COUNT)], "published", choose, least=2, most=VERSIONS - 5)
    last = start("publishing", url, "series", "w", VERSIONS, COUNT)
    last.await_said("published", VERSIONS)
    last.finish()
    found: Counter[str] = Counter()
    while deliveries := broker.receive("q", max=1_000, lease=600):
        found.update(delivery.payload for delivery in deliveries)
    assert set(found.values()) == {1}
    versions = Counter(payload.split("-")[1] for payload in found)
    assert set(versions.values()) == {COUNT}
    assert len(versions) >= VERSIONS
    assert faults_of(url) == {}


def test_two_that_publish_the_same_keys_in_another_order_both_come_to_an_end(broker: Broker, url: str, start: Start) -> None:
    rivals = [start("publishing", url, "keyed", writer, 3, 700) for writer in ("a", "b")]
    for rival in rivals:
        assert rival.await_said("published", 3, within=60) == [[True]] * 3
        rival.finish()
    assert broker.stats("q").ready == 700
    assert faults_of(url) == {}


def test_whoever_only_sends_and_receives_imports_neither_arrow_nor_spark() -> None:
    program = """
import sys, rowq, tempfile
with tempfile.TemporaryDirectory() as folder, rowq.connect(f"sqlite:///{folder}/jobs.db") as broker:
    broker.send("q", 1)
    broker.ack(broker.receive("q")[0])
    broker.sweep()
print(sorted({"pyarrow", "pyspark", "adbc_driver_postgresql"} & set(sys.modules)))
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.strip() == "[]"
