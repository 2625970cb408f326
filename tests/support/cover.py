"""A covering choice instead of a full matrix: each test runs one case of every group in `make test`, and all the others in `make prove`."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import pytest

_REST = pytest.mark.prove("another case of the same promise: each test has one of every group in make test, all tests together have all")


def covering(test: str, *groups: Sequence[str]) -> list[object]:
    """Cases for `parametrize`. The name of the test decides, so that every run makes the same choice, and tests differ."""
    chosen = {group[crc32(f"{number} {test}".encode()) % len(group)] for number, group in enumerate(groups)}
    return [pytest.param(case, marks=() if case in chosen else _REST) for group in groups for case in group]
