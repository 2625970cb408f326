"""The settings of a queue: set, read, and given back to the default."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowq import Broker, InvalidArgument, ManualClock, QueueNotFound, Settings, exponential
from tests.support.harness import Harness
from tests.support.life import take
from tests.support.row_names import told_with

EVERY: dict[str, Any] = {
    "lease": 60,
    "max_attempts": 7,
    "backoff": exponential(1, factor=3, cap=60, jitter=0.5, plus=(0, 1)),
    "ttl": 3_600,
    "ttl_from": "enqueue",
    "refresh_ttl": True,
    "on_expire": "expired",
    "on_exhausted": "fail",
    "delivery": "at_most_once",
    "order": "ready",
    "count_lease_expiry": False,
    "lease_expiry_backoff": "nack",
    "require_receipt": True,
    "max_depth": 1_000,
    "throughput_limit": 50,
    "max_payload_bytes": 1_024,
    "schema": {"type": "object"},
    "keep": "outcome",
    "retention": 60,
    "audit": False,
    "audit_retention": 60,
    "dlq_ttl": 86_400,
    "dlq_exhausted": "delete",
    "paused": True,
}
IN_MILLISECONDS = {"lease", "ttl", "retention", "audit_retention", "dlq_ttl"}


def stored(name: str, value: Any) -> tuple[str, Any]:
    return (f"{name}_ms", value * 1000) if name in IN_MILLISECONDS else (name, value)


def test_a_setting_is_set_and_goes_back_to_its_default(broker: Broker) -> None:
    for name, given in EVERY.items():
        with told_with(name):
            field, value = stored(name, given)
            assert getattr(broker.configure("q", **{name: given}), field) == value
            assert getattr(broker.settings("q"), field) == value
            broker.configure("q", **{name: None})
            assert broker.settings("q") == Settings()


def test_all_settings_are_set_at_once_and_kept(harness: Harness) -> None:
    answered = harness.broker.configure("q", **EVERY)
    assert answered == Settings(**dict(stored(name, value) for name, value in EVERY.items()))
    assert harness.broker.settings("q") == answered
    assert harness.reopen().settings("q") == answered


def test_what_is_not_named_stays(broker: Broker) -> None:
    broker.configure("q", lease=5, max_depth=9)
    broker.configure("q", lease=6)
    assert broker.settings("q") == Settings(lease_ms=6_000, max_depth=9)


def test_each_setting_says_where_its_value_comes_from(broker: Broker) -> None:
    with pytest.raises(QueueNotFound):
        broker.origins("q")
    broker.configure("q", backoff=[1, 2], paused=True)
    told = broker.origins("q")
    assert {name for name, origin in told.items() if origin == "queue"} == {"backoff", "max_attempts", "paused"}
    assert {origin for name, origin in told.items() if name not in ("backoff", "max_attempts", "paused")} == {"default"}
    assert list(told) == list(Settings.__struct_fields__)


def test_settings_are_of_one_queue(broker: Broker) -> None:
    broker.configure("q", lease=5)
    broker.configure("p", lease=6)
    assert (broker.settings("q").lease_ms, broker.settings("p").lease_ms) == (5_000, 6_000)


def test_a_queue_that_was_only_used_has_no_settings_of_its_own(broker: Broker) -> None:
    broker.send("q", "x")
    assert broker.settings("q") == Settings()


def test_settings_that_were_never_made_are_not_found(broker: Broker) -> None:
    with pytest.raises(QueueNotFound) as error:
        broker.settings("never")
    assert error.value.code == "queue_not_found"


@pytest.mark.parametrize("lease", [0.5, timedelta(milliseconds=500)])
def test_durations_are_seconds(broker: Broker, lease: Any) -> None:
    assert broker.configure("q", lease=lease).lease_ms == 500


def test_a_list_of_delays_is_a_backoff(broker: Broker) -> None:
    backoff = broker.configure("q", backoff=[1, 2.5, timedelta(minutes=1)]).backoff
    assert getattr(backoff, "delays_ms", None) == (1_000, 2_500, 60_000)


def test_a_setting_holds_at_once(broker: Broker, clock: ManualClock) -> None:
    broker.send_many("q", [1, 2])
    take(broker)
    broker.configure("q", lease=99)
    assert take(broker).lease_until == clock.now() + 99_000


@pytest.mark.parametrize("back", [None, 30])
def test_a_default_given_back_holds_at_once(broker: Broker, clock: ManualClock, back: Any) -> None:
    broker.configure("q", lease=99)
    broker.configure("q", lease=back)
    broker.send("q", 1)
    assert take(broker).lease_until == clock.now() + 30_000


BAD: list[dict[str, Any]] = [
    {"lease": 0},
    {"lease": -1},
    {"lease": "30"},
    {"lease": True},
    {"lease": float("nan")},
    {"lease": float("inf")},
    {"lease": 367 * 86_400},
    {"ttl": -1},
    {"ttl": timedelta(days=-1)},
    {"retention": -1},
    {"audit_retention": "long"},
    {"dlq_ttl": -0.5},
    {"max_attempts": -1},
    {"max_attempts": 1.5},
    {"max_attempts": True},
    {"max_attempts": "5"},
    {"max_depth": -1},
    {"max_depth": "many"},
    {"throughput_limit": -1},
    {"max_payload_bytes": 0},
    {"max_payload_bytes": 1 << 40},
    {"on_expire": "vanish"},
    {"on_exhausted": "vanish"},
    {"delivery": "exactly_once"},
    {"order": "random"},
    {"keep": "everything"},
    {"ttl_from": "never"},
    {"lease_expiry_backoff": "some"},
    {"dlq_exhausted": "maybe"},
    {"audit": "yes"},
    {"audit": 1},
    {"paused": "no"},
    {"refresh_ttl": 0},
    {"backoff": -1},
    {"backoff": [-1]},
    {"backoff": ["1"]},
    {"backoff": [float("nan")]},
    {"backoff": [True]},
    {"backoff": [367 * 86_400]},
    {"backoff": "fast"},
    {"schema": []},
    {"nonsense": 1},
    {"lease_ms": 5},
    {"name": "q"},
]


def test_an_impossible_setting_is_refused_and_changes_nothing(broker: Broker) -> None:
    before = broker.configure("q", dlq_exhausted="delete", max_depth=3)
    for bad in BAD:
        with told_with(bad):
            with pytest.raises(InvalidArgument):
                broker.configure("q", **{"keep": "body", **bad})
            assert broker.settings("q") == before


def test_an_impossible_setting_makes_no_queue(broker: Broker) -> None:
    with pytest.raises(InvalidArgument):
        broker.configure("q", lease=-1)
    assert broker.queues() == []


def test_an_unknown_setting_is_named_with_those_that_exist(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match=r"colour.*max_depth"):
        broker.configure("q", colour="red")  # type: ignore[call-arg]
