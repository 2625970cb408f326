"""What a key allows: scopes give rights, patterns say on which queues."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq import InvalidArgument
from rowq.model.access import MAX_PATTERNS, SCOPES, ApiKey, Right, Scope, allows, digest_of, reaches, to_key

RIGHTS: tuple[Right, ...] = ("send", "receive", "look", "admin", "metrics")


def key(*scopes: Scope, queues: tuple[str, ...] = ("*",)) -> ApiKey:
    return ApiKey(name="worker", scopes=scopes, queues=queues)


@pytest.mark.parametrize(
    ("scope", "rights"),
    [
        ("send", {"send"}),
        ("receive", {"receive", "look"}),
        ("metrics", {"metrics"}),
        ("admin", set(RIGHTS)),
    ],
)
def test_a_scope_gives_its_rights_and_no_others(scope: Scope, rights: set[Right]) -> None:
    assert {right for right in RIGHTS if allows(key(scope), right)} == rights


@pytest.mark.parametrize(
    ("pattern", "queue", "is_reached"),
    [
        ("*", "anything", True),
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders.", True),
        ("orders.*", "orders", False),
        ("*.eu", "orders.eu", True),
        ("*.eu", "orders.europe", False),
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*c", "acd", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*b*", "xxaxxbxx", True),
        ("*a*b*", "ba", False),
        ("**", "x", True),
    ],
)
def test_a_star_is_any_run_of_characters(pattern: str, queue: str, is_reached: bool) -> None:
    assert reaches(key("send", queues=(pattern,)), queue) is is_reached


@pytest.mark.parametrize("name", ["orders.dlq", "orders-dlq"])
def test_dead_letters_are_reached_by_whoever_reaches_their_queue(name: str) -> None:
    assert reaches(key("receive", queues=("orders",)), name)
    assert not reaches(key("receive", queues=("invoices",)), name)


def test_one_pattern_of_several_is_enough() -> None:
    assert reaches(key("send", queues=("a", "b.*")), "b.1")
    assert not reaches(key("send", queues=("a", "b.*")), "c")


@given(st.lists(st.sampled_from("ab*"), max_size=8).map("".join), st.text("ab", max_size=8))
def test_patterns_mean_what_shells_mean_by_them(pattern: str, name: str) -> None:
    from fnmatch import fnmatchcase

    assert reaches(key("send", queues=(pattern,)), name) == fnmatchcase(name, pattern)


def test_a_pattern_of_many_stars_costs_no_time() -> None:
    greedy = key("send", queues=("*a" * 31 + "*b",))
    started = time.perf_counter()
    assert not reaches(greedy, "a" * 64)
    assert time.perf_counter() - started < 0.1


def test_a_key_is_checked_and_holds_everything_once() -> None:
    made = to_key("worker-1", ["send", "receive", "send"], ["b", "a", "b"], 17)
    assert made == ApiKey(name="worker-1", scopes=("send", "receive"), queues=("b", "a"), created_at=17)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "x" * 65, "a\n", None, 3])
def test_a_name_that_no_header_could_carry_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="not a name for a key"):
        to_key(name, ["send"], ["*"], 0)


@pytest.mark.parametrize("scopes", [[], ["write"], ["send", "look"], [["send"]], [None]])
def test_scopes_that_there_are_not_are_refused(scopes: list[Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        to_key("worker", scopes, ["*"], 0)
    assert all(scope in str(refused.value) for scope in SCOPES)


@pytest.mark.parametrize("queues", [[], [""], ["a b"], ["a/b"], ["x" * 65], [7], ["a"] * (MAX_PATTERNS + 1)])
def test_patterns_that_match_no_name_are_refused(queues: list[Any]) -> None:
    with pytest.raises(InvalidArgument, match="pattern"):
        to_key("worker", ["send"], queues, 0)


def test_a_pattern_of_dead_letters_says_what_to_write_instead() -> None:
    with pytest.raises(InvalidArgument, match="write 'orders'"):
        to_key("worker", ["receive"], ["orders.dlq"], 0)


def test_a_digest_is_the_sha_256_of_the_secret() -> None:
    assert digest_of("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
