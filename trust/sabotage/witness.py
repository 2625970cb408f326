"""A plugin of pytest that writes down what became of each test, and ends the run with the first failure that is a proof.

A test that fails since the defect cannot even be run (it does not compile, a name is missing, a database finds no sense in a query)
has noticed nothing; nor has one that was ended by pytest's own time limit, unless to hang is what the defect does, nor one that found no
server to run on.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.servers import Unavailable

HOME, STORY, HANGS = "SABOTAGED_HOME", "SABOTAGED_STORY", "SABOTAGED_HANGS"
"""Where rowq must come from · the file to write to · whether a hang is a proof. Not ROWQ_…: `rowq serve` refuses such a name."""

_NONSENSE = (ImportError, SyntaxError, NameError, Unavailable)
_NONSENSE_OF_OURS = (TypeError, AttributeError)
"""Where rowq raises it. A test may well stumble so over what it was not given."""
_NONSENSE_IN_SQL = ("syntax error", "error in your sql syntax", "no such column", "unknown column", "number of bindings")
_TIMEOUT = "from pytest-timeout"


class Told(msgspec.Struct, frozen=True):
    """What became of a test, or of what was made ready for it."""

    test: str
    outcome: str
    """passed, failed or skipped"""
    why: str = ""
    is_proof: bool = False


def read(story: Path) -> list[Told]:
    lines = story.read_bytes().splitlines() if story.exists() else []
    return [msgspec.json.decode(line, type=Told) for line in lines]


def is_proof(error: BaseException, *, hangs: bool) -> bool:
    """Whether a failure shows that a promise is broken."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:  # an error that was raised again may be its own reason
        chain.append(one)
        one = one.__cause__ or one.__context__
    if any(_is_nonsense(one) or any(words in f"{one}".lower() for words in _NONSENSE_IN_SQL) for one in chain):
        return False
    return hangs or _TIMEOUT not in f"{error}"


def _is_nonsense(error: BaseException) -> bool:
    if not isinstance(error, _NONSENSE_OF_OURS):
        return isinstance(error, _NONSENSE)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals.get("__name__", "").partition(".")[0] == "rowq"


def pytest_configure() -> None:
    import rowq

    home = os.environ[HOME]
    if not Path(rowq.__file__).is_relative_to(home):
        raise pytest.UsageError(f"rowq comes from {rowq.__file__}, not from {home}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or not report.passed:
        error = call.excinfo.value if call.excinfo is not None else None
        proves = report.failed and error is not None and is_proof(error, hangs=os.environ[HANGS] == "1")
        why = "" if report.passed else f"{type(error).__name__}: {error}"[:500]
        _write(Told(item.nodeid, report.outcome, why, proves))
        if proves:
            item.session.shouldstop = "caught"
    return report


def _write(told: Told) -> None:
    """In one piece: several workers write to the same file."""
    file = os.open(os.environ[STORY], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, msgspec.json.encode(told) + b"\n")
    finally:
        os.close(file)
