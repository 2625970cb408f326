"""Publishers that are killed in the middle of it, and publishers that get in each other's way."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

import pytest

from rowq import Broker, Delivery
from rowq.spark.publish import Mapping, Publisher, open_publisher
from tests.rivals.process import ROOT, Start, kill_at_random
from tests.support.crowd import together
from tests.support.tables import faults_of
from tests.tables.publishing import keyed, numbered

pytestmark = pytest.mark.one_of("kind")

VERSIONS, COUNT = 25, 120
WITHIN = 120
KEYED = Mapping(queue="q", key="key")


def taken(broker: Broker) -> list[Delivery]:
    found: list[Delivery] = []
    while deliveries := broker.receive("q", max=1_000, lease=600):
        found += deliveries
    return found


def test_a_writer_killed_between_putting_down_and_publishing_begins_again(
    broker: Broker, publisher: Publisher, url: str, start: Start
) -> None:
    killed = start("publishing", url, "once", "w", 1, 50, "wait")
    killed.await_said("staged", within=WITHIN)
    killed.kill()
    assert publisher.publish("w", 1, [("again", publisher.stage("again", [numbered("w", 1, 50)], Mapping(queue="q")))]) is True
    assert len(taken(broker)) == 50
    assert faults_of(url) == {}


@pytest.mark.parametrize(
    ("kills", "versions"), [(1, 8), pytest.param(4, VERSIONS, marks=pytest.mark.prove("four kills, 10 s; one kill stands for it"))]
)
def test_a_publisher_that_is_killed_again_and_again_publishes_every_version_once(
    broker: Broker, url: str, start: Start, kills: int, versions: int
) -> None:
    choose = random.Random(5)
    for _ in range(kills):
        kill_at_random([start("publishing", url, "series", "w", 10_000, COUNT)], "published", choose, least=2, most=versions - 5)
    last = start("publishing", url, "series", "w", versions, COUNT)
    last.await_said("published", versions, within=WITHIN)
    last.finish(WITHIN)
    found = Counter(delivery.payload for delivery in taken(broker))
    assert set(found.values()) == {1}
    found_versions = Counter(payload.split("-")[1] for payload in found)
    assert set(found_versions.values()) == {COUNT}
    assert len(found_versions) >= versions
    assert faults_of(url) == {}


def test_two_that_publish_the_same_keys_in_another_order_both_come_to_an_end(broker: Broker, url: str) -> None:
    def publish(writer: str) -> list[bool]:
        with open_publisher(url) as publisher:
            stages = [(stage := f"{writer}-{version}", publisher.stage(stage, [keyed(writer, 300)], KEYED)) for version in range(3)]
            return [publisher.publish(writer, version, [stage]) for version, stage in enumerate(stages)]

    assert together(lambda: publish("a"), lambda: publish("b"), within=WITHIN) == [[True] * 3] * 2
    assert broker.stats("q").ready == 300
    assert faults_of(url) == {}


@pytest.mark.prove("two processes for each database, 10 s; the test above stands for it, with two threads")
def test_two_processes_that_publish_the_same_keys_in_another_order_both_come_to_an_end(broker: Broker, url: str, start: Start) -> None:
    rivals = [start("publishing", url, "keyed", writer, 3, 700) for writer in ("a", "b")]
    for rival in rivals:
        assert rival.await_said("published", 3, within=WITHIN) == [[True]] * 3
        rival.finish(WITHIN)
    assert broker.stats("q").ready == 700
    assert faults_of(url) == {}


@pytest.mark.prove(
    "two processes for each database, 7 s; test_two_publish_the_same_version_at_the_same_time_and_one_of_them_does_it stands for it"
)
def test_two_processes_publish_the_same_version_and_one_of_them_does_it(broker: Broker, url: str, start: Start) -> None:
    rivals = [start("publishing", url, "once", "w", 1, 500, "wait") for _ in range(2)]
    for rival in rivals:
        rival.await_said("staged", within=WITHIN)
    for rival in rivals:
        rival.tell("now")
    answers = sorted(rival.await_said("published", within=WITHIN)[0][0] for rival in rivals)
    for rival in rivals:
        rival.finish(WITHIN)
    assert answers == [False, True]
    assert sorted(delivery.payload for delivery in taken(broker)) == sorted(f"w-1-{number}" for number in range(500))
    assert faults_of(url) == {}


def test_whoever_only_sends_and_receives_imports_neither_arrow_nor_spark() -> None:
    program = """
import sys, rowq, tempfile
with tempfile.TemporaryDirectory() as folder, rowq.connect(f"sqlite:///{folder}/jobs.db") as broker:
    broker.send("q", 1)
    broker.ack(broker.receive("q")[0])
    broker.maintain()
print(sorted({"pyarrow", "pyspark", "adbc_driver_postgresql"} & set(sys.modules)))
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.strip() == "[]"
