"""Warnings about names of the release before: they work for one release, and the warning says the new name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any


def warn_renamed(old: str, new: str) -> None:
    """The warning points to the caller's line: the first one outside rowq."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rowq":
        level, frame = level + 1, frame.f_back
    warnings.warn(renaming(old, new), DeprecationWarning, stacklevel=level)


def renaming(old: str, new: str) -> str:
    return f"{old} is now {new}; the old name works until the next release"


def under_new_names(options: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments with old names replaced, each with a warning."""
    for old in options.keys() & renamed.keys():
        if renamed[old] in options:
            raise TypeError(f"{old}= is the old name of {renamed[old]}=: give only the new one")
        warn_renamed(f"{old}=", f"{renamed[old]}=")
    return {renamed.get(name, name): value for name, value in options.items()}
