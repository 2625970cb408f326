"""Where the time of a run went: seconds by folder and the slowest tests, and one closing line that says how it ended."""

from __future__ import annotations

from collections import Counter

import pytest

SLOWEST = 50
_QUICK = 0.5
"""Seconds; a quicker test is not listed."""


def write_times(terminal: pytest.TerminalReporter) -> None:
    """Setup, call and teardown of a test count together; several workers spend more seconds than the clock shows."""
    seconds: Counter[str] = Counter()
    for reports in terminal.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration  # type: ignore[assignment]  # a Counter of seconds
    if not seconds:
        return
    tests, spent = Counter(map(_folder, seconds)), Counter[str]()
    for test, duration in seconds.items():
        spent[_folder(test)] += duration
    terminal.section("where the time went: seconds of all workers together")
    for folder, duration in spent.most_common():
        terminal.write_line(f"{duration:8.1f} s  {tests[folder]:6,} tests  {folder}")
    terminal.write_line(f"{sum(seconds.values()):8.1f} s  {len(seconds):6,} tests  in all")
    terminal.section(f"the slowest tests, {SLOWEST} at most")
    for test, duration in seconds.most_common(SLOWEST):
        if duration > _QUICK:
            terminal.write_line(f"{duration:8.2f} s  {test}")


def closing_line(terminal: pytest.TerminalReporter, seconds: float) -> str:
    """Such as `All 11,204 tests passed in 10 min 52 s (35 skipped).`"""
    passed, skipped = len(terminal.getreports("passed")), len(terminal.getreports("skipped"))
    broken = len(terminal.getreports("failed")) + len(terminal.getreports("error"))
    minutes, rest = divmod(round(seconds), 60)
    took = f"in {minutes} min {rest} s" if minutes else f"in {rest} s"
    beside = f" ({skipped:,} skipped)" if skipped else ""
    if broken:
        return f"{broken:,} of {passed + broken:,} tests failed {took}{beside}: each is explained above."
    return f"All {passed:,} tests passed {took}{beside}." if passed else "No test was run."


def _folder(test: str) -> str:
    return test.partition("::")[0].rpartition("/")[0]
