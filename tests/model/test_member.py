"""Who is alive, whose a message is, and how far one looks for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq.errors import InvalidArgument
from rowq.model.member import (
    MOST_SHARES,
    NARROWEST,
    WIDEST,
    Member,
    Membership,
    check_room,
    is_consumer_id,
    living,
    membership,
    new_consumer_id,
    own_of,
    to_share,
    to_silence,
    width,
)
from tests.support.row_names import row_name

moments = st.integers(0, 1 << 45)
consumers = st.lists(st.tuples(st.uuids().map(str), moments, moments), max_size=10, unique_by=lambda row: row[0])


@given(consumers, moments, st.integers(1, 3_600_000))
def test_the_living_are_numbered_by_age_and_the_dead_are_not_there(rows: list[tuple[str, int, int]], now: int, silence: int) -> None:
    alive = living(rows, now, silence)
    assert {member.id for member in alive} == {id for id, _, beat_at in rows if now - beat_at < silence}
    assert [member.index for member in alive] == list(range(len(alive)))
    assert alive == sorted(alive, key=lambda member: (member.born_at, member.id))


@given(consumers, moments, st.randoms())
def test_all_agree_on_the_order_in_whichever_they_read_it(rows: list[tuple[str, int, int]], now: int, random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert living(shuffled, now, 5_000) == living(rows, now, 5_000)


def test_a_consumer_is_dead_when_its_silence_is_over() -> None:
    assert living([("a", 0, 1_000)], 5_999, 5_000) == [Member("a", 0, 0, 1_000)]
    assert living([("a", 0, 1_000)], 6_000, 5_000) == []


def test_a_membership_tells_the_place_and_the_number() -> None:
    alive = living([("b", 2, 9), ("a", 1, 9), ("c", 3, 9)], 10, 5)
    assert membership("b", alive) == Membership("b", 1, 3)


def test_no_more_register_than_can_share() -> None:
    check_room("q", Membership("a", 0, MOST_SHARES))
    with pytest.raises(InvalidArgument, match="10000 consumers"):
        check_room("q", Membership("a", 0, MOST_SHARES + 1))


@given(st.integers(0, 1 << 62), st.integers(1, 10_000))
def test_a_message_is_of_exactly_one_share(seq: int, count: int) -> None:
    place = (0, seq, seq)
    assert own_of((seq % count, count), [place]) == [place]
    assert count == 1 or own_of(((seq + 1) % count, count), [place]) == []


@given(st.integers(1, 10_000), st.integers(1, 1_000))
def test_how_far_one_looks_has_bounds(count: int, wanted: int) -> None:
    seen = width((0, count), wanted)
    assert NARROWEST <= seen <= WIDEST
    assert seen >= min(wanted * count, WIDEST)


@pytest.mark.parametrize("share", [(0, 1), (4, 5), [1, 2], (9_999, 10_000)])
def test_a_share_is_taken_as_a_pair(share: Any) -> None:
    assert to_share(share) == tuple(share)


def test_no_share_is_none() -> None:
    assert to_share(None) is to_share(None, from_dead=True) is None


@pytest.mark.parametrize("silence", [0, -1, 3_601, float("nan"), "5", None, True], ids=row_name)
def test_a_silence_has_bounds(silence: Any) -> None:
    with pytest.raises(InvalidArgument, match="dead_after"):
        to_silence(silence)


def test_ids_are_uuids_and_those_that_are_brought_are_kept() -> None:
    own = new_consumer_id()
    assert is_consumer_id(own)
    assert new_consumer_id(own) == own
    assert new_consumer_id() != own


@pytest.mark.parametrize("id", ["", "x", "5F0C1D5E-8F55-4B7C-9D1E-6A2B7C3D4E5F", "5f0c1d5e8f554b7c9d1e6a2b7c3d4e5f", 5], ids=row_name)
def test_an_id_that_is_no_uuid_is_not_registered(id: Any) -> None:
    with pytest.raises(InvalidArgument):
        new_consumer_id(id)
