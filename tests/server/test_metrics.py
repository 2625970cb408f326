"""The text of /metrics: what the meter counted, what waits, and nothing of queues that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import rowq
from rowq import Broker, ManualClock
from rowq.model.lifecycle import REASONS
from rowq.server.metrics import COUNTERS, FRESH, OLD, Metrics
from rowq.store.meter import OTHER, Meter
from tests.support.background import Background
from tests.support.patience import eventually

Sample = tuple[str, tuple[tuple[str, str], ...]]


class Seconds:
    """A running time that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Observed:
    """A broker with metrics on its engine."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.clock = ManualClock()
        self.seconds = Seconds()
        self.url = f"sqlite:///{path / 'jobs.db'}"
        self.broker = rowq.connect(self.url, clock=self.clock, maintenance=False)
        self.meter = Meter(**options)
        self.broker._engine.attach(self.meter)
        self.metrics = Metrics(self.broker._engine, self.meter, monotonic=self.seconds)

    def text(self) -> str:
        return asyncio.run(self.metrics.render()).decode()

    def scrape(self) -> dict[Sample, float]:
        """By name and labels, as a Prometheus server would read them."""
        found: dict[Sample, float] = {}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                at = (sample.name, tuple(sorted(sample.labels.items())))
                assert at not in found, f"{at} is told twice"
                found[at] = sample.value
        return found

    def later(self, seconds: float) -> None:
        self.seconds.now += seconds
        self.clock.advance(seconds)


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    observed = Observed(tmp_path)
    yield observed
    observed.broker.close()


@pytest.fixture
def broker(observed: Observed) -> Broker:
    return observed.broker


def at(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


def queues_in(found: dict[Sample, float]) -> set[str]:
    return {value for _, labels in found for name, value in labels if name == "queue"}


def test_what_happened_is_told_by_queue(observed: Observed, broker: Broker) -> None:
    broker.send_many("q", [1, 2, 3])
    first, second = broker.receive("q", max=2)
    broker.ack(first)
    broker.reject(second)
    found = observed.scrape()
    assert found[at("rowq_messages_sent_total", queue="q")] == 3
    assert found[at("rowq_messages_delivered_total", queue="q")] == 2
    assert found[at("rowq_messages_acked_total", queue="q")] == 1
    assert found[at("rowq_dead_letters_total", queue="q", reason="rejected")] == 1


def test_every_counter_is_there_from_the_beginning(observed: Observed, broker: Broker) -> None:
    broker.configure("q", max_depth=10)
    found = observed.scrape()
    assert all(found[at(f"{name}_total", queue="q")] == 0 for name, _ in COUNTERS.values())
    assert all(found[at("rowq_dead_letters_total", queue="q", reason=reason)] == 0 for reason in REASONS)


def test_depths_are_told_by_state(observed: Observed, broker: Broker) -> None:
    broker.send_many("q", [1, 2, 3, 4])
    broker.send("q", 5, delay=60)
    broker.receive("q")
    broker.reject(broker.receive("q")[0])
    broker.pause("q")
    found = observed.scrape()
    states = {state: found[at("rowq_messages", queue="q", state=state)] for state in rowq.State}
    assert states == {"ready": 2, "scheduled": 1, "leased": 1, "blocked": 0, "dead": 1, "finished": 0}
    assert found[at("rowq_paused", queue="q")] == 1


def test_the_oldest_ready_message_has_an_age(observed: Observed, broker: Broker) -> None:
    broker.send("q", 1)
    broker.send("idle", 1)
    broker.receive("idle")
    observed.later(90)
    found = observed.scrape()
    assert found[at("rowq_oldest_ready_age_seconds", queue="q")] == 90
    assert found[at("rowq_oldest_ready_age_seconds", queue="idle")] == 0


def test_depths_are_counted_again_when_they_are_no_longer_fresh(observed: Observed, broker: Broker) -> None:
    ready = at("rowq_messages", queue="q", state="ready")
    broker.send("q", 1)
    assert observed.scrape()[ready] == 1
    broker.send("q", 2)
    observed.later(FRESH - 1)
    assert observed.scrape()[ready] == 1
    observed.later(1)
    assert observed.scrape()[ready] == 2


def test_histograms_are_cumulative_and_in_seconds(observed: Observed, broker: Broker) -> None:
    broker.send_many("q", [1, 2])
    observed.later(0.25)
    delivery = broker.receive("q")[0]
    observed.later(2)
    broker.receive("q")
    broker.ack(delivery)
    found = observed.scrape()
    wait = {labels["le"]: value for (name, pairs), value in found.items() if name == "rowq_wait_seconds_bucket" for labels in [dict(pairs)]}
    assert (wait["0.1"], wait["0.25"], wait["1.0"], wait["2.5"], wait["+Inf"]) == (0, 1, 1, 2, 2)
    assert found[at("rowq_wait_seconds_sum", queue="q")] == 2.5
    assert found[at("rowq_wait_seconds_count", queue="q")] == 2
    assert found[at("rowq_processing_seconds_sum", queue="q")] == 2


def test_transactions_are_told(observed: Observed, broker: Broker) -> None:
    broker.send_many("q", [1, 2])
    broker.receive("q", max=2)
    found = observed.scrape()
    assert found[at("rowq_transaction_calls_count")] == 2
    assert found[at("rowq_transaction_rows_sum")] == 4
    assert found[at("rowq_transaction_seconds_count", durable="true")] == 1
    assert found[at("rowq_transaction_seconds_count", durable="false")] == 1
    assert found[at("rowq_transaction_failures_total")] == 0


def test_a_deleted_queue_is_gone_from_every_series_at_once(observed: Observed, broker: Broker) -> None:
    broker.send_many("q", [1, 2])
    broker.send("stays", 1)
    broker.ack(broker.receive("q")[0])
    assert queues_in(observed.scrape()) == {"q", "stays"}
    broker.delete_queue("q")
    assert queues_in(observed.scrape()) == {"stays"}


def test_a_queue_that_another_process_deleted_is_gone_with_the_next_count(observed: Observed, broker: Broker) -> None:
    broker.send("q", 1)
    broker.send("stays", 1)
    assert queues_in(observed.scrape()) == {"q", "stays"}
    with rowq.connect(observed.url, maintenance=False) as other:
        other.delete_queue("q")
    observed.later(FRESH)
    assert queues_in(observed.scrape()) == {"stays"}


def test_queues_beyond_the_bound_are_told_together(tmp_path: Path) -> None:
    observed = Observed(tmp_path, max_queues=2)
    for queue in ("a", "b", "c", "d"):
        observed.broker.send(queue, 1)
    observed.later(5)
    found = observed.scrape()
    observed.broker.close()
    assert queues_in(found) == {"a", "b", OTHER}
    assert found[at("rowq_messages_sent_total", queue=OTHER)] == 2
    assert found[at("rowq_messages", queue=OTHER, state="ready")] == 2
    assert found[at("rowq_oldest_ready_age_seconds", queue=OTHER)] == 5


def test_scrapes_that_come_together_share_one_count(observed: Observed, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    insights, looks = broker._engine.insights, []
    queues = insights.queues

    def count() -> list[rowq.Stats]:
        looks.append(1)
        return queues()

    async def scrape() -> list[bytes]:
        return await asyncio.gather(*[observed.metrics.render() for _ in range(5)])

    monkeypatch.setattr(insights, "queues", count)
    broker.send("q", 1)
    texts = asyncio.run(scrape())
    assert len(looks) == 1
    assert all(b'rowq_messages{queue="q",state="ready"} 1.0' in text for text in texts)


def test_without_a_readable_store_the_rest_is_told(
    observed: Observed, broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> list[rowq.Stats]:
        raise rowq.StoreUnavailable("the disk is away")

    broker.send("q", 1)
    assert observed.scrape()[at("rowq_store_readable")] == 1
    monkeypatch.setattr(broker._engine.insights, "queues", fail)
    observed.later(OLD)
    assert observed.scrape()[at("rowq_messages", queue="q", state="ready")] == 1
    observed.later(1)
    found = observed.scrape()
    assert found[at("rowq_store_readable")] == 0
    assert found[at("rowq_messages_sent_total", queue="q")] == 1
    assert not [name for name, _ in found if name in ("rowq_messages", "rowq_oldest_ready_age_seconds")]
    assert "cannot be read" in caplog.text


def test_waiting_consumers_and_further_gauges_are_told(observed: Observed, broker: Broker) -> None:
    observed.metrics.gauges["rowq_connections"] = lambda: 3
    waiting = Background(lambda: broker.receive("q", wait=10))
    # A waiter that looks for messages, once a second in any case, is not counted while it looks.
    eventually(lambda: observed.scrape()[at("rowq_waiting_consumers")] == 1)
    broker.send("q", 1)
    waiting.result()
    assert observed.scrape()[at("rowq_connections")] == 3


def test_the_process_is_told_and_the_global_registry_is_left_alone(observed: Observed) -> None:
    before = list(REGISTRY.collect())
    found = observed.scrape()
    assert found[at("process_resident_memory_bytes")] > 0
    assert found[at("rowq_build_info", version=rowq.__version__)] == 1
    assert not [family.name for family in before if family.name.startswith("rowq")]
    assert not [name for name, _ in found if name.startswith("python_")]


def test_every_family_has_a_help_and_a_type(observed: Observed, broker: Broker) -> None:
    broker.send("q", 1)
    families = {family.name: family for family in text_string_to_metric_families(observed.text())}
    assert all(family.documentation and family.type != "unknown" for name, family in families.items() if name.startswith("rowq"))
