"""A covering choice instead of a full matrix: each test runs one case of every group in `make test`, and all the others in `make prove`."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import pytest

_REST = pytest.mark.prove("another case of the same promise: each test has one of every group in make test, all tests together have all")


def covering(metafunc: pytest.Metafunc, *groups: Sequence[str]) -> list[object]:
    """Cases for `parametrize`. The name of the test decides, so that every run makes the same choice, and tests differ. In `make test`
    the others are not even collected, which would take longer than some of them run."""
    chosen = {_choice(metafunc.function.__name__, group) for group in groups}
    is_whole = not is_short(metafunc.config)
    return [pytest.param(case, marks=() if case in chosen else _REST) for group in groups for case in group if case in chosen or is_whole]


def is_short(config: pytest.Config) -> bool:
    """It is `make test`, or a part of it."""
    return bool(config.option.markexpr == "not prove")


def cover(items: Sequence[pytest.Item], parameter: str) -> None:
    """The same for tests that were collected with all cases: those that are not chosen are marked."""
    found = [(item, case) for item in items if isinstance(item, pytest.Function) and (case := _case(item, parameter))]
    cases: dict[tuple[object, str], set[str]] = {}
    for item, case in found:
        cases.setdefault((item.path, item.originalname), set()).add(case)
    for item, case in found:
        if case != _choice(item.originalname, sorted(cases[item.path, item.originalname])):
            item.add_marker(_REST)


def _case(item: pytest.Function, parameter: str) -> str | None:
    case = item.callspec.params.get(parameter) if hasattr(item, "callspec") else None
    return case if isinstance(case, str) else None


def _choice(test: str, group: Sequence[str]) -> str:
    return group[crc32(f"{group[0]} {test}".encode()) % len(group)]
