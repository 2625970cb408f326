"""Whether a program printed what its document shows. Ids, moments, ages and sizes differ from run to run; `…` stands for anything."""

from __future__ import annotations

import re

_VARIABLE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-7000-[0-9a-f]{4}-[0-9a-f]{12}\.[0-9a-f]{16}", "RECEIPT"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-7000-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
        (r"\b(?:now|(?:in )?\d+(?:ms|s|m|h|d)(?: ago)?)(?=[\s,)]|$)", "AGE"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "MOMENT"),
        (r"\b1\d{12}\b", "MILLISECONDS"),
        (r'(?<="delay_ms":)\d+', "DELAY"),
        (r"[\d,]+\.\d MB", "SIZE"),
        (r"\bcli:\S+", "ACTOR"),
        (r"SQLite version: \S+", "SQLite version: VERSION"),
        (r"─+", "─"),
        (r"[ \t]+", " "),
    )
)


def is_like(printed: str, shown: str) -> bool:
    """True when they are the same but for what varies. A line of its own with `…` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in _lines(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    for pattern, name in _VARIABLE:
        text = pattern.sub(name, text)
    return [line.strip() for line in text.strip().splitlines()]
