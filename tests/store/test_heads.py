"""Head hints: who looks for its own only must not use up the looks of those who take anything."""

from __future__ import annotations

from threading import Event

from rowq.store.heads import BEGINNING, Heads, Taken
from rowq.store.herald import Place

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
