"""Head hints: nothing that is below one is lost, and who looks for its own only does not use up the looks of those who take anything."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

import rowq
from rowq import Broker
from rowq.engine.executor import Executor
from rowq.store.call import Receive
from rowq.store.head_hint import BEGINNING, Heads, Taken
from rowq.store.notify.notifier import Notification, Place
from tests.support.database import new_database

DEAR = 0.006
"""Seconds: a scan that takes so long is not made again for fifty times as long."""
LONG_AGO, JUST_NOW = float("-inf"), float("inf")


def hinted(scanned_at: float) -> Heads:
    """Where the last claim ended at (0, 100)."""
    heads = Heads()
    heads.take("q", None, lambda place: ([("first",)], (0, 100)))
    heads._heads["q"].scanned_at = scanned_at
    return heads


def find_nothing_slowly(place: Place) -> Taken:
    Event().wait(DEAR)
    return [], None


def test_a_scan_for_a_share_that_finds_nothing_leaves_the_scan_for_all_due() -> None:
    """Another process has written below the hint what is not of the share."""
    heads = hinted(LONG_AGO)
    assert heads.take("q", None, find_nothing_slowly, is_choosy=True) == []
    assert heads.take("q", None, lambda place: ([("below",)], (-5, 101)) if place == BEGINNING else ([], None)) == [("below",)]


def test_a_scan_for_a_share_that_finds_something_is_a_scan() -> None:
    heads = hinted(LONG_AGO)
    heads.take("q", None, lambda place: ([("own",)], (0, 1)), is_choosy=True)
    assert heads._heads["q"].scanned_at > LONG_AGO
    assert heads._heads["q"].place == (0, 1)


def test_who_is_choosy_does_not_begin_anew_where_nothing_is_found() -> None:
    places: list[Place] = []

    def look(place: Place) -> Taken:
        places.append(place)
        return [], None

    hinted(JUST_NOW).take("q", None, look, is_choosy=True)
    assert places == [(0, 100)]


def test_what_is_written_while_a_claim_is_under_way_is_not_left_behind() -> None:
    """The claim may have looked there before it was written."""
    heads = hinted(JUST_NOW)

    def take(place: Place) -> Taken:
        heads.lower({"q": (0, 50)})
        return [("next",)], (0, 101)

    heads.take("q", None, take)
    assert heads._heads["q"].place == (0, 50)


def test_a_claim_begins_where_the_last_one_ended_and_at_the_beginning_now_and_then() -> None:
    places: list[Place] = []

    def look(place: Place) -> Taken:
        places.append(place)
        return [("next",)], (0, 101)

    hinted(JUST_NOW).take("q", None, look)
    hinted(LONG_AGO).take("q", None, look)
    assert places == [(0, 100), BEGINNING]


def test_where_nothing_is_found_behind_the_hint_it_is_looked_for_at_the_beginning() -> None:
    heads = hinted(JUST_NOW)
    heads._heads["q"].scanned_at = 0.0
    heads._heads["q"].scan_took = 0.0
    assert heads.take("q", None, lambda place: ([("below",)], (-5, 101)) if place == BEGINNING else ([], None)) == [("below",)]


def test_what_another_process_tells_lowers_the_hint(broker: Broker) -> None:
    store = broker._engine.store
    store.heads.take("q", None, lambda place: ([("first",)], (0, 100)))
    store.hear(Notification({"q": (1, (0, 50))}))
    assert store.heads._heads["q"].place == (0, 50)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_claim_that_is_rolled_back_leaves_no_hint_behind_what_it_took(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else holds what another call of the same transaction needs; alone, this one begins where it began."""
    monkeypatch.setattr("rowq.store.head_hint._SCAN_EVERY", 60.0)
    with rowq.connect(new_database(kind, tmp_path).url, maintenance=False) as broker:
        broker.configure("limited", throughput_limit=1_000)
        broker.receive("limited")
        broker.send_many("q", range(10))
        calls = [Receive(queue, 3, None, None, from_dead=False, delivery=None) for queue in ("q", "limited")]
        with broker._engine.dialect.writing(durable=False) as other:
            other.rows("read_bucket", queue="limited")
            Executor(broker._engine.store).perform(calls)
        assert [call.would_wait for call in calls] == [False, True]
        assert [bytes(row[6]) for row in calls[0].result or ()] == [b"0", b"1", b"2"]
