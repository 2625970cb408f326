"""Names for the rows of a table of values: the same in every process, so that several workers find the same tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def row_name(value: object) -> str:
    text = f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, set) else repr(value)
    return _ADDRESS.sub("", text)[:40]


@contextmanager
def told_with(value: object) -> Iterator[None]:
    """Around one value of a table that one test walks through: a failure names the value."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"with {row_name(value)}")
        raise
