"""What an error is about: the same for errors that mean the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowq import Where
from rowq.model.failure import matches, put_together
from rowq.model.fingerprint import LOOKED_AT, MOST, RULES, _of_beginning, fingerprint
from rowq.store.read import NEWEST

ALIKE = [
    ("timeout after 31 s", "timeout after 7.5 s", "timeout after <number> s"),
    ("no user 'ada'", 'no user "grace"', "no user <value>"),
    ("/var/lib/a1/x.json is gone", "/home/b/y is gone", "<path> is gone"),
    (r"C:\data\x.json is gone", "d:/data/y/ is gone", "<path> is gone"),
    ("job 0190163d-8694-7000-8000-00000000002a", "job 0190163d-8694-7000-8000-00000000002b", "job <id>"),
    ("10.0.0.1:5432 refused", "192.168.4.77 refused", "<address> refused"),
    ("GET https://a.example/x?y=1 failed", "GET http://b.example failed", "GET <url> failed"),
    ("at 2026-01-31T09:30:00Z", "at 2025-12-01 10:00:00.123+02:00", "at <time>"),
    ("commit deadbeef01234567 lost", "commit 0123456789abcdef lost", "commit <id> lost"),
    ("ada@example.com bounced\n  twice", "grace@example.org  bounced twice", "<mail> bounced twice"),
    ("object at 0x7f3a", "object at 0xFF", "object at <number>"),
]
PIECES = [*(error for pair in ALIKE for error in pair[:2]), *" \n\t'\"@/\\:.-0x", "://", "C:/a/b", "☃", "\x1c", "\u2028"]


@pytest.mark.parametrize(("one", "other", "told"), ALIKE)
def test_errors_that_mean_the_same_have_one_fingerprint(one: str, other: str, told: str) -> None:
    assert fingerprint(one) == fingerprint(other) == told


def test_errors_that_differ_have_fingerprints_of_their_own() -> None:
    assert fingerprint("division by zero") != fingerprint("connection refused")
    assert len(fingerprint("x" * 10_000)) == MOST


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_a_rule_that_is_passed_over_would_have_found_nothing(error: str) -> None:
    plain = error[:LOOKED_AT]
    for pattern, word in RULES:
        plain = re.sub(pattern, word, plain, flags=re.ASCII)
    assert fingerprint(error) == plain.strip()[:MOST]


def test_failures_are_counted_from_the_newest_on() -> None:
    newest_first = [("r", "boom 4", 9, 40), ("r", None, 8, 30), ("s", "boom 2", 7, 20), ("r", "boom 1", 3, 10)]
    told = [(kind.reason, kind.fingerprint, kind.count, kind.first_at, kind.last_at, kind.seq) for kind in put_together(newest_first)]
    assert told == [("r", "boom <number>", 2, 3, 9, 40), ("r", "", 1, 8, 8, 30), ("s", "boom <number>", 1, 7, 7, 20)]


def test_one_more_error_does_not_drive_out_those_that_were_read_before() -> None:
    errors = [f"error {chr(0x4E00 + number)}" for number in range(NEWEST)]
    for error in errors:
        fingerprint(error)
    read = _of_beginning.cache_info().misses
    for error in ("a new one", *errors[:-1]):
        fingerprint(error)
    assert _of_beginning.cache_info().misses == read + 1


@pytest.mark.parametrize(
    ("where", "is_meant"),
    [
        (Where(), True),
        (Where(reason="rejected", error="user 7", fingerprint="no user <number>", key="k", group="g", died_before=6, died_after=4), True),
        (Where(reason="message_expired"), False),
        (Where(error="user 8"), False),
        (Where(fingerprint="no user 7"), False),
        (Where(fingerprint=""), False),
        (Where(key="g"), False),
        (Where(group="k"), False),
        (Where(died_before=5), False),
        (Where(died_after=5), False),
    ],
)
def test_a_letter_is_meant_if_everything_fits(where: Where, is_meant: bool) -> None:
    assert matches(where, "rejected", "no user 7", "k", "g", 5) is is_meant
