"""What somebody at a terminal is told beside the result, and a script is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.driver import Run

LOOKS = ("stats", "browse", "dead", "failures", "redrive", "purge", "pause", "resume")
MISSING = "there is no queue {!r}: nothing was ever sent to it or set on it"


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("terminal", [True, False])
def test_a_mistyped_queue_is_told_with_the_name_that_is_like_it(run: Run, look: str, terminal: bool) -> None:
    """To a script too: it is an error."""
    run("send", "emails", "1")
    refused = run(look, "emial", terminal=terminal)
    assert refused.err == f"rowq: {MISSING.format('emial')}; did you mean 'emails'? [queue_not_found]\n"
    assert (refused.exit_code, refused.out) == (3, "")
    assert [each["queue"] for each in run("stats", "--json").lines] == ["emails"]


def test_a_queue_that_is_like_no_other_is_told_too(run: Run) -> None:
    run("send", "emails", "1")
    assert run("dead", "orders.dlq", terminal=True).err == f"rowq: {MISSING.format('orders')} [queue_not_found]\n"


def test_a_receive_may_wait_for_a_queue_and_tells_a_terminal_that_it_is_not_there(run: Run) -> None:
    run("send", "emails", "1")
    told = run("receive", "emial", terminal=True)
    assert told.err.startswith(f"{MISSING.format('emial')}; did you mean 'emails'?\n")
    assert "there is no queue" not in (silent := run("receive", "emial")).err
    assert (told.exit_code, silent.exit_code) == (run("receive", "emials").exit_code,) * 2


@pytest.mark.parametrize("command", [("send", "emial", "1"), ("configure", "emial", "max_attempts=3")])
def test_a_new_queue_is_told_to_a_script_too(run: Run, command: tuple[str, ...]) -> None:
    run("send", "emails", "1")
    assert run(*command).err == "created the queue emial\n"
    assert run(*command).err == ""


@pytest.mark.parametrize("look", [*LOOKS, "receive"])
def test_of_a_queue_that_is_empty_nothing_is_told(run: Run, look: str) -> None:
    run("send", "emails", "1")
    run("receive", "emails", "--ack")
    assert "there is no queue" not in run(look, "emails", terminal=True).err


def test_a_mistyped_queue_is_told_by_a_deletion_too(run: Run) -> None:
    run("send", "emails", "1")
    assert "did you mean 'emails'?" in run("delete-dead", "emial", "--error", "x", "--yes", terminal=True).err


def test_whoever_receives_nothing_is_told_that_the_queue_is_paused(run: Run) -> None:
    run("send", "emails", "1")
    run("pause", "emails")
    assert "emails is paused: rowq resume emails" in run("receive", "emails", terminal=True).err
    assert "rowq resume" not in run("receive", "emails").err
    run("resume", "emails")
    assert "rowq resume" not in run("receive", "emails", terminal=True).err


@pytest.mark.parametrize("command", [("send", "q", "-"), ("load", "q"), ("ack", "-")])
def test_a_command_that_waits_for_lines_at_a_terminal_says_so(run: Run, command: tuple[str, ...]) -> None:
    run("migrate")
    assert "Ctrl-D" in run(*command, terminal=True).err
    assert "Ctrl-D" not in run(*command).err


def test_a_file_in_the_place_of_the_queue_is_told_where_nobody_pipes_lines(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.jsonl").write_text('{"payload": 1}\n')
    refused = run("load", "orders.jsonl", terminal=True)
    assert refused.exit_code == 2
    assert "orders.jsonl is a file: load QUEUE orders.jsonl, or load --file orders.jsonl" in refused.err
    assert run("load", "orders.jsonl", stdin=b'{"payload": 2}\n').out == "1 message loaded\n"
    assert run("load", "orders", "orders.jsonl", terminal=True).out == "1 message loaded\n"
