"""The page of threats: no line without a test, no test that is not there, and no suite of this folder that it forgets."""

from __future__ import annotations

from pathlib import Path

from tests.docs.named_tests import missing, named, named_in
from tests.docs.page import page

PAGE = page("docs/security.md")
TABLES = ("threat", "what")


def test_every_line_names_the_tests_that_hold_it() -> None:
    rows = [
        line for line in PAGE.prose.splitlines() if line.startswith("| ") and not line.startswith(tuple(f"| {word} |" for word in TABLES))
    ]
    assert len(rows) > 40
    assert [row for row in rows if not named_in(row)] == []


def test_every_test_that_is_named_is_there() -> None:
    assert missing(named(PAGE)) == []


def test_every_suite_of_this_folder_is_named() -> None:
    here = {f"tests/security/{file.name}" for file in Path(__file__).parent.glob("test_*.py")} - {f"tests/security/{Path(__file__).name}"}
    assert here - {name.partition("::")[0] for name in named(PAGE)} == set()


def test_the_numbers_are_those_of_the_sources() -> None:
    from rowq.model.draft import MAX_KV_KEYS, MAX_NAME, MAX_SEND
    from rowq.model.payload import MAX_DEPTH
    from rowq.model.retry import MAX_DELAYS
    from rowq.server.auth.lockout import FAILURES, WITHIN
    from rowq.server.config import Config
    from rowq.wire import MAX_RECEIPTS

    config, text = Config(), PAGE.text
    assert (FAILURES, WITHIN) == (10, 60) and "after 10 wrong ones within a minute" in text
    assert f"| {MAX_DELAYS:,} |" in text and f"| {MAX_SEND:,}; 1,000; {MAX_RECEIPTS:,} |" in text
    assert f"of the queue; {MAX_DEPTH} |" in text and f"{MAX_NAME}, {MAX_NAME} and 128 characters; {MAX_KV_KEYS:,} |" in text
    assert (config.max_body_bytes, config.max_header_bytes) == (16 << 20, 32 << 10)
    assert f"{config.header_timeout:.0f} s and {config.body_timeout:.0f} s" in text and f"{config.max_connections:,}" in text
