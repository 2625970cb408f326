"""Names for the rows of a table of values: the same in every process, so that several workers find the same tests."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def spelled(value: object) -> str:
    text = f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, set) else repr(value)
    return _ADDRESS.sub("", text)[:40]
