"""Names, settings and the policy that they come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rowq.errors import InvalidArgument, NameReserved
from rowq.model.queue import Policy, Settings, change, check_name, check_own_name, origins, resolve, split_name
from rowq.model.retry import Delays, Exponential
from tests.support.row_names import row_name

GOOD_NAMES = ["a", "emails", "A-Z_0.9", "x" * 64, "dlq", "dlq.x", "a.dlq.b", "-", "...", ".a"]
BAD_NAMES: list[Any] = [
    "",
    ".",
    "..",
    "..dlq",
    " ",
    "a b",
    "a/b",
    "ü",
    "x" * 65,
    "x" * 65 + "-dlq",
    "x" * 64 + "_dlq",
    "a\n",
    "\n",
    "a\x00",
    None,
    5,
    b"a",
    ["a"],
]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_taken_as_it_is(name: str) -> None:
    assert check_name(name) == check_own_name(name) == name


@pytest.mark.parametrize("name", BAD_NAMES, ids=row_name)
def test_a_bad_name_is_refused(name: Any) -> None:
    for check in (check_name, check_own_name, split_name):
        with pytest.raises(InvalidArgument, match="1 to 64"):
            check(name)


@pytest.mark.parametrize("name", ["a.dlq", "a-dlq", "a.dlq.dlq", "a-dlq.dlq", "x" * 64 + "-dlq"])
def test_the_names_of_dead_letters_are_reserved(name: str) -> None:
    assert check_name(name) == name
    with pytest.raises(NameReserved, match="dead letters"):
        check_own_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", ("a", False)),
        ("a.dlq", ("a", True)),
        ("a-dlq", ("a", True)),
        ("dlq", ("dlq", False)),
        ("a.dlq.dlq", ("a.dlq", True)),
        ("x" * 64 + ".dlq", ("x" * 64, True)),
    ],
)
def test_a_name_is_split_into_its_queue_and_whether_its_dead_are_meant(name: str, expected: tuple[str, bool]) -> None:
    assert split_name(name) == expected


@given(st.text(alphabet="abc.-_dlq", min_size=1, max_size=64))
def test_a_name_that_may_be_sent_to_never_means_dead_letters(name: str) -> None:
    assume(name.strip(".") or len(name) > 2)
    try:
        own = check_own_name(name)
    except NameReserved:
        assert name.endswith((".dlq", "-dlq"))
    else:
        assert split_name(own) == (own, False)


def test_no_settings_come_to_the_engines_defaults() -> None:
    assert resolve(Settings()) == resolve() == Policy()


def test_the_defaults_are_those_of_the_design() -> None:
    policy = Policy()
    assert (policy.lease_ms, policy.max_attempts, policy.ttl_ms, policy.dlq_ttl_ms) == (30_000, 5, 0, 0)
    assert policy.backoff == Delays((1_000, 5_000, 15_000, 30_000, 60_000))
    assert (policy.on_expire, policy.on_exhausted, policy.delivery, policy.keep) == ("dead", "dead", "at_least_once", "none")
    assert (policy.audit, policy.paused, policy.max_payload_bytes) == (True, False, 256 * 1024)


def test_an_earlier_layer_beats_a_later_one() -> None:
    policy = resolve(Settings(lease_ms=1), Settings(lease_ms=2, max_depth=2), Settings(lease_ms=3, max_depth=3, throughput_limit=3))
    assert (policy.lease_ms, policy.max_depth, policy.throughput_limit) == (1, 2, 3)


def test_zero_and_false_are_set_and_not_unset() -> None:
    policy = resolve(Settings(max_attempts=0, audit=False), Settings(max_attempts=9, audit=True))
    assert (policy.max_attempts, policy.audit) == (0, False)


def test_a_value_comes_from_the_first_layer_that_says_it() -> None:
    found = origins(Settings(lease_ms=1, audit=False), Settings(lease_ms=2, max_depth=3))
    assert (found["lease_ms"], found["audit"], found["max_depth"], found["ttl_ms"]) == ("queue", "queue", "server", "default")
    assert list(found) == list(Policy.__struct_fields__)


@pytest.mark.parametrize(
    ("own", "server", "origin"),
    [
        (Settings(backoff=Delays((1,))), Settings(max_attempts=9), "queue"),
        (Settings(), Settings(backoff=Delays((1,))), "server"),
        (Settings(backoff=Delays()), Settings(backoff=Delays((1,))), "server"),
        (Settings(backoff=Exponential(1_000)), Settings(), "default"),
        (Settings(max_attempts=0), Settings(backoff=Delays((1,))), "queue"),
    ],
)
def test_attempts_come_from_where_the_backoff_comes_from_that_implies_them(own: Settings, server: Settings, origin: str) -> None:
    assert origins(own, server)["max_attempts"] == origin


def test_settings_and_policy_have_the_same_names() -> None:
    assert Settings.__struct_fields__ == Policy.__struct_fields__


def test_a_change_leaves_the_rest() -> None:
    assert change(Settings(lease_ms=1, max_depth=2), lease_ms=3) == Settings(lease_ms=3, max_depth=2)


def test_none_goes_back_to_the_default() -> None:
    assert change(Settings(lease_ms=1, max_depth=2), lease_ms=None) == Settings(max_depth=2)


def test_a_backoff_is_kept_through_another_change() -> None:
    backoff = Exponential(1_000, jitter=0.5)
    assert change(change(Settings(), backoff=backoff), lease_ms=5).backoff == backoff


def test_the_settings_that_were_given_are_not_changed_themselves() -> None:
    given = Settings(lease_ms=1)
    change(given, lease_ms=2)
    assert given == Settings(lease_ms=1)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"'colour'.*lease_ms"):
        change(Settings(), colour="red")


IMPOSSIBLE: list[dict[str, Any]] = [
    {"lease_ms": 0},
    {"lease_ms": -1},
    {"lease_ms": 1.5},
    {"lease_ms": "5"},
    {"lease_ms": True},
    {"lease_ms": 366 * 86_400_000 + 1},
    {"max_attempts": -1},
    {"ttl_ms": -1},
    {"max_depth": 1 << 60},
    {"max_payload_bytes": 0},
    {"on_expire": "vanish"},
    {"on_exhausted": ""},
    {"delivery": "exactly_once"},
    {"order": "random"},
    {"keep": "all"},
    {"audit": 1},
    {"paused": "yes"},
    {"schema": []},
    {"backoff": {"kind": "nonsense"}},
    {"backoff": 5},
]


@pytest.mark.parametrize("impossible", IMPOSSIBLE, ids=row_name)
def test_an_impossible_setting_is_refused(impossible: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="not possible"):
        change(Settings(), **impossible)
