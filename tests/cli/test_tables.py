"""Tables are for people: nothing in them is obeyed by a terminal or by Rich, and nothing is cut in a pipe."""

from __future__ import annotations

import pytest

from tests.cli.driver import Run, Spawn

NASTY = "[red]x[/red] [/] [link=http://evil]y[/link] :smile: \x1b]0;title\x07 \x9b2J \u202e \r\n"


@pytest.fixture
def nasty(run: Run) -> str:
    """A message, and a dead letter, that try everything."""
    import json

    run("send", "q", json.dumps(NASTY), "--key", "[bold]k", "--header", f"h={NASTY}")
    run("send", "q", "1", "--key", "d")
    lines = run("receive", "q", "--max", "2", "--json").lines
    run("reject", lines[1]["receipt"], "--reason", NASTY)
    run("nack", lines[0]["receipt"], "--delay", "0", "--reason", NASTY)
    return str(lines[0]["id"])


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("args", [("browse", "q"), ("dead", "q"), ("receive", "q"), ("get",), ("audit",), ("stats",), ("configure", "q")])
def test_markup_and_control_characters_stay_text(
    run: Run, nasty: str, args: tuple[str, ...], terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "25")  # of a dumb terminal Rich believes the width only with the height
    result = run(*args, *([nasty] if len(args) == 1 and args[0] in ("get", "audit") else []), terminal=terminal)
    assert result.exit_code == 0, result.err
    for forbidden in ("\x1b", "\x07", "\x9b", "\u202e", "\r", "😄"):
        assert forbidden not in result.out
    if args[0] in ("browse", "receive", "get"):
        assert "[red]x[/red]" in result.out


def test_errors_are_escaped_too(run: Run, nasty: str) -> None:
    result = run("get", "\x1b[31m[bold]\n")
    assert result.exit_code == 3
    assert "\x1b" not in result.err
    assert result.err.count("\n") == 1


def test_ids_are_whole_in_a_pipe_whatever_the_width(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    id = run("send", "q", '"' + "wide 日本 " * 100 + '"', "--key", "k" * 100).out.strip()
    table = run("browse", "q").out
    assert id in table
    assert "k" * 100 in table
    assert len(table) < 1000


def test_ids_are_whole_in_a_narrow_terminal_and_the_payload_gives_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    id = run("send", "q", '"' + "long " * 20 + '"', "--key", "k").out.strip()
    row = run("browse", "q", terminal=True).out.splitlines()[2]
    assert id in row
    assert row.rstrip().endswith("…")
    assert len(row) <= 80
    monkeypatch.setenv("COLUMNS", "30")
    assert id in run("browse", "q", terminal=True).out


def test_wide_characters_keep_the_columns_straight(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.cells import cell_len

    run("send", "q", '"日本語"', "--key", "日本")
    run("send", "q", '"abc"', "--key", "ab", "--priority", "5")
    rows = run("browse", "q").out.splitlines()
    starts = {cell_len(row[: row.index('"')]) for row in rows if '"' in row}
    assert len(starts) == 1


def test_colours_are_only_for_terminals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("send", "q", "1")
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    assert "\x1b[" not in run("browse", "q").out
    assert "\x1b[" in run("browse", "q", terminal=True).out


def test_output_that_knows_no_unicode_is_escaped_not_broken(run: Run, spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    run("send", "q", '"日本"')
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    process = spawn("browse", "q", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"\\u65e5" in out
