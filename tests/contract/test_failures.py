"""Why messages died: dead letters put together by reason and by errors that mean the same, and acted on as one."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, Failures, InvalidArgument, ManualClock, State, Where
from tests.support.life import bury, depths, ids, state_of, take


def die(broker: Broker, clock: ManualClock, *errors: str | None) -> list[str]:
    """A dead letter for each error, a second apart."""
    buried = []
    for error in errors:
        clock.advance(1)
        buried.append(bury(broker, reason=error))
    return buried


def told(found: Failures) -> list[tuple[str, str, int]]:
    return [(failure.reason, failure.fingerprint, failure.count) for failure in found.failures]


def test_errors_that_mean_the_same_are_one_failure(broker: Broker, clock: ManualClock) -> None:
    began = clock.now()
    first, _, last = die(broker, clock, "timeout after 31 s", "no user 'ada'", "timeout after 7 s")
    found = broker.failures("q")
    assert told(found) == [("rejected", "timeout after <number> s", 2), ("rejected", "no user <value>", 1)]
    assert (found.looked_at, found.more) == (3, False)
    timeout = found.failures[0]
    assert (timeout.first_at, timeout.last_at) == (began + 1_000, began + 3_000)
    assert (timeout.id, timeout.error) == (last, "timeout after 7 s")
    assert first != last


def test_reasons_are_told_apart(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, "no user 7")
    broker.send("q", "x", max_attempts=1)
    broker.nack(take(broker), reason="no user 8")
    assert sorted(told(broker.failures("q"))) == [
        ("max_attempts_reached", "no user <number>", 1),
        ("rejected", "no user <number>", 1),
    ]


def test_letters_without_an_error_are_a_failure_too(broker: Broker, clock: ManualClock) -> None:
    (id,) = die(broker, clock, None)
    (failure,) = broker.failures("q").failures
    assert (failure.fingerprint, failure.error, failure.id) == ("", None, id)


def test_an_example_has_the_id_that_its_sender_brought_and_its_whole_error(broker: Broker) -> None:
    error = "no such column: ßäö 🐘\n" + "x" * 3_000
    bury(broker, reason=error, id="mine")
    (failure,) = broker.failures("q").failures
    assert (failure.id, failure.error) == ("mine", error)
    assert len(failure.fingerprint) == 200


def test_case_and_blanks_at_the_end_tell_errors_apart_in_the_database(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, "Gone", "gone", "gone ")
    assert sorted(told(broker.failures("q"))) == [("rejected", "Gone", 1), ("rejected", "gone", 2)]


def test_the_most_frequent_come_first_and_then_the_latest(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, "a", "b", "c", "c", "b", "d")
    assert [failure.fingerprint for failure in broker.failures("q").failures] == ["b", "c", "d", "a"]
    assert [failure.fingerprint for failure in broker.failures("q", limit=2).failures] == ["b", "c"]


def test_only_the_newest_are_looked_at(broker: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.read.NEWEST", 2)
    die(broker, clock, "old", "new", "new")
    found = broker.failures("q")
    assert (told(found), found.looked_at, found.more) == ([("rejected", "new", 2)], 2, True)
    monkeypatch.setattr("rowq.store.read.NEWEST", 3)
    assert (broker.failures("q").looked_at, broker.failures("q").more) == (3, False)


def test_a_queue_without_dead_letters_has_no_failures(broker: Broker) -> None:
    broker.configure("q")
    bury(broker, queue="other", reason="elsewhere")
    assert broker.failures("q") == Failures(failures=[], looked_at=0, more=False)


def test_the_name_of_the_dead_letters_will_do(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, "boom")
    assert broker.failures("q.dlq") == broker.failures("q")


def test_a_failure_is_redriven_as_one(broker: Broker, clock: ManualClock) -> None:
    a, b, c = die(broker, clock, "timeout after 31 s", "no user 'ada'", "timeout after 7 s")
    failure = broker.failures("q").failures[0]
    assert broker.redrive("q", where=Where(reason=failure.reason, fingerprint=failure.fingerprint)) == 2
    assert [state_of(broker, id) for id in (a, b, c)] == [State.READY, State.DEAD, State.READY]


def test_letters_without_an_error_are_redriven_by_the_empty_fingerprint(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, None, "boom", None)
    assert broker.redrive("q", where=Where(fingerprint="")) == 2
    assert depths(broker) == {"ready": 2, "dead": 1}


def test_a_fingerprint_and_other_filters_narrow_each_other(broker: Broker, clock: ManualClock) -> None:
    die(broker, clock, "timeout 1", "timeout 2", "timeout 3")
    where = Where(fingerprint="timeout <number>", error="2", reason="rejected")
    assert broker.redrive("q", where=where) == 1
    assert broker.redrive("q", where=Where(fingerprint="timeout 1")) == 0


def test_a_redrive_by_fingerprint_keeps_to_its_limit_and_goes_on_from_there(broker: Broker, clock: ManualClock) -> None:
    buried = die(broker, clock, *("timeout 1", "boom") * 4)
    assert broker.redrive("q", where=Where(fingerprint="timeout <number>"), limit=3) == 3
    assert ids(broker.browse("q")) == [buried[0], buried[2], buried[4]]
    assert broker.redrive("q", where=Where(fingerprint="timeout <number>")) == 1


def test_a_redrive_by_fingerprint_goes_through_all_in_pieces(broker: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.read.CANDIDATES", 2)
    die(broker, clock, "boom", "boom", "boom", "timeout 1", "boom", "timeout 2", "timeout 3")
    assert broker.redrive("q", where=Where(fingerprint="timeout <number>"), progress=lambda count: None) == 3
    assert depths(broker) == {"ready": 3, "dead": 4}


@pytest.mark.parametrize("limit", [0, 1_001, "5", None])
def test_an_impossible_limit_is_refused(broker: Broker, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        broker.failures("q", limit=limit)
