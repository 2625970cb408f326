"""The help is the table of contents, and says what the exit codes mean."""

from __future__ import annotations

import pytest

import rowq
from tests.cli.driver import Run

COMMANDS = [
    "send",
    "receive",
    "ack",
    "nack",
    "reject",
    "reschedule",
    "extend",
    "browse",
    "get",
    "stats",
    "audit",
    "dead",
    "redrive",
    "delete-dead",
    "purge",
    "delete",
    "pause",
    "resume",
    "configure",
    "load",
    "dump",
    "doctor",
    "migrate",
    "maintain",
    "serve",
]


def test_the_help_lists_every_command_in_panels(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    listed = {words[1] for line in result.out.splitlines() if len(words := line.split()) > 2 and words[0] == "│"}
    assert {*COMMANDS, "keys"} <= listed
    for panel in ("Messages", "Deliveries", "Queues", "Dead letters", "In and out", "Database", "Server"):
        assert f"─ {panel}" in result.out


def test_the_help_documents_exit_codes_and_durations(run: Run) -> None:
    told = run("--help").out
    for code in ("0  done", "1  it failed", "2  wrong usage", "3  nothing there", "4  the database", "130  interrupted", "141  "):
        assert code in told
    assert "500ms" in told
    assert "ROWQ_URL" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own_and_the_shared_options(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"rowq {command}" in result.out
    assert "--url" in result.out
    assert "--json" in result.out


def test_no_command_at_all_is_wrong_usage_and_shows_the_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "receive" in result.out


def test_version(run: Run) -> None:
    assert run("--version").out == f"rowq {rowq.__version__}\n"
    assert run("--json", "--version").json == {"version": rowq.__version__}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("frobnicate",), "frobnicate"),
        (("send",), "QUEUE"),
        (("send", "q", "1", "--no-such-option"), "--no-such-option"),
        (("browse", "q", "--state", "asleep"), "asleep"),
        (("send", "q", "1", "--delay", "5x"), "not a duration"),
        (("send", "q", "1", "--priority", "high"), "--priority"),
        (("reschedule", "a-receipt"), "--delay"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(run: Run, args: tuple[str, ...], told: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert result.err.startswith("rowq: ")
    assert result.err.endswith(" --help [usage]\n")
    assert told in result.err


def test_wrong_usage_with_json_is_a_document_on_stderr(run: Run) -> None:
    result = run("send", "q", "1", "--bogus", "--json")
    assert result.exit_code == 2
    assert result.error["code"] == "usage"
    assert "--bogus" in result.error["error"]


def test_json_as_a_payload_is_not_json_the_option(run: Run) -> None:
    result = run("send", "q", "--", "--json")
    assert result.exit_code == 2
    assert result.err.startswith("rowq: ")


def test_a_group_of_commands_lists_them(run: Run) -> None:
    result = run("keys")
    assert result.exit_code == 2
    assert all(command in result.out for command in ("create", "list", "revoke"))
    assert result.err == ""


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_a_command_of_a_group_has_help_of_its_own_and_the_shared_options(run: Run, command: str) -> None:
    result = run("keys", command, "--help")
    assert result.exit_code == 0
    assert f"rowq keys {command}" in result.out
    assert "--url" in result.out and "--json" in result.out


@pytest.mark.parametrize(
    "command", [(), ("send",), ("ack",), ("browse",), ("purge",), ("serve",), ("keys", "create"), ("pipeline", "replay")]
)
def test_the_help_shows_no_types_of_python(run: Run, command: tuple[str, ...]) -> None:
    told = run(*command, "--help").out
    assert "--help" in told
    assert not [word for word in ("<", "bool", "list[", "str]", "int range") if word in told]
