"""The table of promises, as docs/promises.md has it: what the tests of faults expect is what the page says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.page import Page, page

PAGE = "docs/promises.md"
FAULTS = ("process killed", "`rowq serve` killed", "database killed", "power loss")
KEPT = "kept"
UNDONE = "may be undone"
LOST = ("**the latest may be lost**", "**the last second may be lost**")
DESTROYED = "**the database may be destroyed**"
NOT_HERE = "–"
FATES = (KEPT, UNDONE, *LOST, DESTROYED, NOT_HERE)
CLASSES = {"send": "`send`", "decision": "decisions", "handling": "`ack`"}
"""A class of calls, and the word by which a row says that it is about it."""
_TITLE = "database"


@dataclass(frozen=True)
class Promise:
    """What a fault may do to calls that were answered, on one database with one setting."""

    kind: str
    setting: str
    fault: str
    fates: tuple[tuple[str, str], ...]
    """Of each class of calls."""

    @property
    def kept(self) -> set[str]:
        return {kind for kind, fate in self.fates if fate == KEPT}

    @property
    def destroys(self) -> bool:
        return any(fate == DESTROYED for _, fate in self.fates)

    def __str__(self) -> str:
        return f"{self.kind}-{self.setting}"


def promises(fault: str, source: Page | None = None) -> list[Promise]:
    """One for each database and setting that this fault may strike."""
    column = 3 + FAULTS.index(fault)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in (source or page(PAGE)).table(_TITLE):
        setting = re.search(r"`(\w+=\w+)`", row[1])
        if setting is None:
            raise ValueError(f"{row[1]!r} names no setting")
        if row[column] not in FATES:
            raise ValueError(f"{row[column]!r} is no fate: {FATES}")
        fates = found.setdefault((row[0].partition(",")[0].lower(), setting[1]), {})
        for kind, word in CLASSES.items():
            if word in row[2] or row[2] == "everything":
                if kind in fates:
                    raise ValueError(f"{row[0]} with {setting[1]} says twice what becomes of {kind}")
                fates[kind] = row[column]
    return [Promise(*key, fault, tuple(fates.items())) for key, fates in found.items() if NOT_HERE not in fates.values()]
