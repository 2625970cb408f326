"""Requests are counted by what they ask for and how they ended, whichever way the answer goes out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rowq.server.shared_meter import SharedMeter
from rowq.server.worker_state import WorkerState
from tests.support.serving import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "--json", "--no-admin")
    served.announced()
    yield served
    served.close()


def scrape(served: Served) -> dict[tuple[str, ...], float]:
    """Samples that are not zero, by name and labels."""
    text = served.ask("GET", "/metrics").body.decode()
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "le")): sample.value
        for family in text_string_to_metric_families(text)
        if family.name.startswith("rowq_http")
        for sample in family.samples
        if sample.value and sample.labels.get("le", "+Inf") == "+Inf"
    }


def test_answers_are_counted_by_request_and_status(served: Served) -> None:
    for _ in range(3):
        served.ask("POST", "/v1/queues/q/messages", {"payload": 1})
    served.ask("POST", "/v1/queues/q/messages", {"payload": 1}, connection="close")
    served.ask("POST", "/v1/queues/q/messages", {"nonsense": 1})
    delivery = served.ask("POST", "/v1/queues/q/deliveries", {}).json["deliveries"][0]
    served.ask("POST", "/v1/ack", {"receipts": [delivery["receipt"]]})
    served.ask("GET", "/v1/queues/nobody")
    served.ask("GET", "/v1/queues")
    found = scrape(served)
    assert {at[1:]: count for at, count in found.items() if at[0] == "rowq_http_requests_total"} == {
        ("send", "2xx"): 4,
        ("send", "4xx"): 1,
        ("receive", "2xx"): 1,
        ("settle", "2xx"): 1,
        ("other", "2xx"): 1,
        ("other", "4xx"): 1,
    }
    assert {at[1]: count for at, count in found.items() if at[0] == "rowq_http_seconds_count"} == {
        "send": 5,
        "receive": 1,
        "settle": 1,
        "other": 2,
    }


def test_a_receive_takes_as_long_as_it_waits(served: Served) -> None:
    served.ask("POST", "/v1/queues/q/deliveries", {"wait_ms": 300})
    assert scrape(served)["rowq_http_seconds_sum", "receive"] >= 0.3


def test_workers_tell_what_all_of_them_have_answered() -> None:
    with closing(WorkerState(2)) as worker_state:
        first, second = SharedMeter(worker_state, 0), SharedMeter(worker_state, 1)
        first.requests.answered("send", 201, 0.5)
        second.requests.answered("send", 503, 0.25)
        first.publish()
        second.publish()
        for meter in (first, second, SharedMeter(worker_state, 0)):
            told = meter.read().requests
            assert (told.answers["send", 2], told.answers["send", 5]) == (1, 1)
            assert told.latency["send"].total == 0.75
