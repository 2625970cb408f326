"""Values in, text out: durations, ages and sizes, nothing that a terminal would obey."""

from __future__ import annotations

import pytest
import typer

from rowq.cli import parameter, text
from rowq.cli.text import json_line


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30", 30),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("10s", 10),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604800),
        ("0", 0),
        ("0.25h", 900),
        (" 5s ", 5),
    ],
)
def test_durations(written: str, seconds: float) -> None:
    assert parameter.duration(written) == seconds


@pytest.mark.parametrize("written", ["", "s", "5 s", "5x", "-1", "1e3", "nan", "inf", "1h30m", "٥", "9" * 400, "0x10", "1_000", "5S"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(typer.BadParameter, match="duration"):
        parameter.duration(written)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("naïve 日本 👩\u200d🚀", "naïve 日本 👩\u200d🚀"),
    ],
)
def test_visible_spells_out_what_a_terminal_would_obey(raw: str, shown: str) -> None:
    assert text.visible(raw) == shown


def test_json_lines_hold_no_raw_control_characters_and_still_mean_the_same() -> None:
    import json

    tricky = "\x1b[0m \x9b \u202e \u2028 é"
    line = json_line({"payload": tricky}).decode()
    assert not any(control in line for control in "\x1b\x9b\u202e\u2028")
    assert json.loads(line) == {"payload": tricky}


def test_ages_and_sizes_are_short() -> None:
    assert [text.span(ms) for ms in (0, 999, 1000, 61_000, 7_200_000, 90_000_000)] == ["0s", "999ms", "1s", "1m", "2h", "1d"]
    assert text.ago(1000, 61_000) == "1m ago"
    assert text.ago(61_000, 1000) == "in 1m"
    assert text.ago(1000, 1500) == text.ago(1500, 1000) == "now"
    assert [text.size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30)] == ["0 B", "1023 B", "1.5 KB", "5.0 MB", "3.0 GB"]


def test_previews_are_one_short_line() -> None:
    assert text.preview({"a": 1}) == '{"a":1}'
    assert len(text.preview("x" * 10_000)) == 60
    assert text.preview(b"\x00\xff").startswith("2 B of bytes: 00ff")
