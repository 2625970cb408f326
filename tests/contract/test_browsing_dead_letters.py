"""Dead letters on a page: only those that match, filled from as far away as it takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rowq import Broker, InvalidArgument, ManualClock, State, Where
from tests.contract.test_redrive import WHERES, four_dead
from tests.support.life import bury, ids, payloads
from tests.support.row_names import told_with


def fields(where: Where) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(where).items() if value is not None}


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read fingerprints at most six."""
    monkeypatch.setattr("rowq.store.read.CANDIDATES", 3)
    monkeypatch.setattr("rowq.store.read._MOST_QUERIES", 2)


def sparse(broker: Broker, clock: ManualClock) -> list[str]:
    """The ids of the four that match among thirty."""
    buried = []
    for number in range(30):
        clock.advance(1)
        buried.append(bury(broker, number, reason=f"rare {number}" if number in (1, 17, 18, 29) else "common"))
    return [buried[number] for number in (1, 17, 18, 29)]


def pages(broker: Broker, **options: Any) -> list[list[str]]:
    found, after = [], None
    while page := broker.browse("q", state="dead", after=after, **options):
        found.append(ids(page))
        after = page[-1].cursor
    return found


@pytest.mark.parametrize(("where", "expected"), WHERES.values(), ids=WHERES)
def test_a_page_lists_what_a_redrive_takes(broker: Broker, clock: ManualClock, where: Where, expected: set[str]) -> None:
    buried = four_dead(broker, clock)
    meant = [id for name, id in buried.items() if name in expected]
    assert ids(broker.browse("q", state="dead", **fields(where))) == meant
    assert ids(broker.browse("q.dlq", newest=True, **fields(where))) == meant[::-1]


def test_a_fingerprint_says_which_are_listed(broker: Broker) -> None:
    a, b, c = (bury(broker, reason=reason) for reason in ("timeout after 31 s", "no user 'ada'", "timeout after 7 s"))
    d = bury(broker)
    failure = broker.failures("q").failures[0]
    assert ids(broker.browse("q.dlq", reason=failure.reason, fingerprint=failure.fingerprint)) == [a, c]
    assert ids(broker.browse("q.dlq", fingerprint="no user <value>")) == [b]
    assert ids(broker.browse("q.dlq", fingerprint="")) == [d]
    assert broker.browse("q.dlq", fingerprint="timeout after 7 s") == broker.browse("q.dlq", fingerprint="no user") == []


def test_filters_narrow_each_other(broker: Broker, clock: ManualClock) -> None:
    began = clock.now()
    bury(broker, "to ada", reason="timeout 1")
    bury(broker, "to bob", reason="timeout 2", key="k")
    clock.advance(1)
    bury(broker, "to ada, late", reason="timeout 3", group="g")
    broker.send("q", "to ada, expired", ttl=1)
    clock.advance(2)
    broker.maintain()
    timeout: dict[str, Any] = {"state": "dead", "fingerprint": "timeout <number>"}
    assert payloads(broker.browse("q", state="dead", text="ada", reason="rejected")) == ["to ada", "to ada, late"]
    assert payloads(broker.browse("q", text="ada", **timeout)) == ["to ada", "to ada, late"]
    assert payloads(broker.browse("q", text="ada", reason="rejected", sent_after=began + 1_000, **timeout)) == ["to ada, late"]
    assert payloads(broker.browse("q", text="ada", group="g", error="3", **timeout)) == ["to ada, late"]
    assert payloads(broker.browse("q", died_after=began, newest=True, **timeout)) == ["to ada, late"]
    assert broker.browse("q", key="k", text="ada", **timeout) == broker.browse("q", reason="message_expired", **timeout) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.usefixtures("few_candidates")
def test_few_among_many_are_found_page_by_page(broker: Broker, clock: ManualClock, limit: int, newest: bool) -> None:
    rare = sparse(broker, clock)
    meant = rare[::-1] if newest else rare
    found = pages(broker, fingerprint="rare <number>", limit=limit, newest=newest)
    assert found == [meant[start : start + limit] for start in range(0, 4, limit)]


@pytest.mark.usefixtures("few_candidates")
def test_a_filter_goes_on_behind_any_cursor(broker: Broker, clock: ManualClock) -> None:
    """Also behind that of a message which does not match, and in both directions."""
    rare = sparse(broker, clock)
    middle = broker.browse("q", state="dead", limit=18)[-1]
    assert middle.id == rare[1]
    before = broker.browse("q", state="dead", limit=10)[-1]
    each: list[dict[str, Any]] = [{"fingerprint": "rare <number>"}, {"error": "rare"}, {"fingerprint": "rare <number>", "text": "rare"}]
    for filters in each:
        assert ids(broker.browse("q", state="dead", after=middle.cursor, **filters)) == rare[2:]
        assert ids(broker.browse("q", state="dead", after=middle.cursor, newest=True, **filters)) == rare[:1]
        assert ids(broker.browse("q", state="dead", after=before.cursor, **filters)) == rare[1:]


@pytest.mark.usefixtures("few_candidates")
def test_those_that_all_match_are_listed_page_by_page(broker: Broker) -> None:
    buried = [bury(broker, number, reason=f"rare {number}") for number in range(10)]
    assert pages(broker, fingerprint="rare <number>", limit=4) == [buried[:4], buried[4:8], buried[8:]]
    assert pages(broker, fingerprint="rare <number>", limit=5) == [buried[:5], buried[5:]]


def test_a_page_by_fingerprint_is_filled_from_far_away(broker: Broker) -> None:
    broker.send_many("q", ["hay"] * 700)
    broker.reject_many(broker.receive("q", max=700), reason="common")
    needle = bury(broker, "needle", reason="rare 1")
    assert ids(broker.browse("q", state="dead", fingerprint="rare <number>", limit=1)) == [needle]


@pytest.mark.parametrize("state", [state for state in State if state is not State.DEAD])
def test_only_dead_letters_are_selected_by_what_they_died_of(broker: Broker, state: State) -> None:
    broker.send("q", "x")
    filters: dict[str, Any] = {"reason": "rejected", "error": "x", "fingerprint": "x", "died_before": 1, "died_after": 1}
    for name, value in filters.items():
        with told_with(name), pytest.raises(InvalidArgument, match=f"by {name}, not {state} messages"):
            broker.browse("q", state=state, **{name: value})


BAD: list[dict[str, Any]] = [
    {"error": ""},
    *({name: value} for name in ("reason", "error", "fingerprint") for value in (5, b"x", "\0", "\ud800", ["x"])),
    *({name: value} for name in ("died_before", "died_after") for value in (-1, 1 << 62, 1.5, True, "5", "")),
]


def test_a_bad_filter_is_refused(broker: Broker) -> None:
    bury(broker)
    for bad in BAD:
        with told_with(bad), pytest.raises(InvalidArgument):
            broker.browse("q", state="dead", **bad)
        with told_with(bad), pytest.raises(InvalidArgument):
            broker.redrive("q", where=Where(**bad))
