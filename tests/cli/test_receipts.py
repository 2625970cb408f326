"""ack, nack, reject, reschedule, extend: by argument, by pipe, and when the lease is lost."""

from __future__ import annotations

import pytest

from tests.cli.driver import Run


@pytest.fixture
def receipts(run: Run) -> list[str]:
    """Three messages under lease."""
    for n in range(3):
        run("send", "q", str(n))
    return [line["receipt"] for line in run("receive", "q", "--max", "3", "--lease", "1h", "--json").lines]


def counts(run: Run) -> dict[str, int]:
    stats = run("stats", "q", "--json").json
    return {state: stats[state] for state in ("ready", "scheduled", "leased", "dead") if stats[state]}


def test_ack_takes_many_receipts(run: Run, receipts: list[str]) -> None:
    result = run("ack", *receipts)
    assert (result.exit_code, result.out) == (0, "3 messages acked\n")
    assert counts(run) == {}


def test_a_second_ack_is_a_lost_lease(run: Run, receipts: list[str]) -> None:
    assert run("ack", receipts[0]).exit_code == 0
    result = run("ack", *receipts, "--json")
    assert result.exit_code == 1
    assert result.lines == [
        {"receipt": receipts[0], "outcome": "not_found"},
        {"receipt": receipts[1], "outcome": "done"},
        {"receipt": receipts[2], "outcome": "done"},
    ]
    assert result.error["code"] == "lease_lost"
    assert result.error["error"].startswith("1 of 3 receipts ")


def test_people_see_which_lease_was_lost(run: Run, receipts: list[str]) -> None:
    run("nack", receipts[0], "--delay", "1h")
    result = run("ack", *receipts)
    assert result.exit_code == 1
    assert result.out == f"{receipts[0]} stale\n2 messages acked\n"
    assert "[lease_lost]" in result.err


def test_receipts_come_through_a_pipe_bare_or_as_deliveries(run: Run) -> None:
    for n in range(4):
        run("send", "q", str(n))
    deliveries = run("receive", "q", "--max", "2", "--json").out.encode()
    assert run("ack", "-", stdin=deliveries + b"\n").out == "2 messages acked\n"
    bare = "\n".join(line["receipt"] for line in run("receive", "q", "--max", "2", "--json").lines)
    assert run("ack", "-", "--json", stdin=bare.encode()).lines[1]["outcome"] == "done"
    assert counts(run) == {}


def test_what_was_settled_before_a_bad_line_is_told(run: Run, receipts: list[str]) -> None:
    result = run("ack", receipts[0], "-", stdin=b"garbage\n")
    assert result.exit_code == 2
    assert result.out == "1 message acked\n"
    assert counts(run) == {"leased": 2}


@pytest.mark.parametrize("line", [b"garbage\n", b"{\n", b'{"id": "x"}\n', b"\xff\n"])
def test_a_bad_line_of_receipts_is_exit_code_2(run: Run, receipts: list[str], line: bytes) -> None:
    result = run("ack", "-", stdin=line)
    assert result.exit_code == 2
    assert "[invalid_receipt]" in result.err
    assert counts(run) == {"leased": 3}


def test_nack_brings_back_after_a_delay_or_at_once(run: Run, receipts: list[str]) -> None:
    assert run("nack", receipts[0], "--delay", "1h", "--reason", "later").exit_code == 0
    assert run("nack", receipts[1], "--delay", "0").exit_code == 0
    assert counts(run) == {"scheduled": 1, "ready": 1, "leased": 1}


def test_a_released_message_has_not_used_an_attempt(run: Run, receipts: list[str]) -> None:
    assert run("nack", *receipts, "--released", "--delay", "0").exit_code == 0
    assert [line["attempt"] for line in run("receive", "q", "--max", "3", "--json").lines] == [1, 1, 1]


def test_a_deadline_may_end_the_tries(run: Run) -> None:
    assert run("configure", "q", "max_attempts=0", "backoff=1m").exit_code == 0
    run("send", "q", "1")
    for _ in range(2):
        (taken,) = run("receive", "q", "--json").lines
        assert run("nack", taken["receipt"], "--limit", "deadline", "--delay", "0").exit_code == 0
    assert counts(run) == {"ready": 1}
    (taken,) = run("receive", "q", "--json").lines
    assert run("nack", taken["receipt"], "--limit", "deadline").exit_code == 0
    assert counts(run) == {"scheduled": 1}
    refused = run("nack", taken["receipt"], "--limit", "never")
    assert (refused.exit_code, "deadline" in refused.err) == (2, True)


def test_reject_makes_dead_letters(run: Run, receipts: list[str]) -> None:
    assert run("reject", receipts[0], "--reason", "no such address").exit_code == 0
    letter = run("dead", "q", "--json").lines[0]
    assert (letter["reason"], letter["error"]) == ("rejected", "no such address")


def test_reschedule_starts_the_attempts_again(run: Run, receipts: list[str]) -> None:
    assert run("reschedule", *receipts, "--delay", "1h").exit_code == 0
    assert [m["attempts"] for m in run("browse", "q", "--state", "scheduled", "--json").lines] == [0, 0, 0]


def test_extend_moves_the_end_of_the_lease(run: Run, receipts: list[str]) -> None:
    before = run("browse", "q", "--state", "leased", "--json").lines[0]["lease_until"]
    assert run("extend", *receipts, "--lease", "2h").exit_code == 0
    assert run("browse", "q", "--state", "leased", "--json").lines[0]["lease_until"] > before + 3_000_000
    assert run("ack", *receipts).exit_code == 0
