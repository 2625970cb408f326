"""What was looked at, and what was wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

SHOWN = 10
"""Violations of a kind that are told in full: the first ones say what the others would."""


@dataclass
class Verdict:
    checked: Counter[str] = field(default_factory=Counter)
    """The name of a check → how often it was made; 0 is told too."""
    violations: list[str] = field(default_factory=list)
    """Each with the lines that show it."""
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(way, verb) → calls that were answered."""
    messages: int = 0
    """How many were sent, and answered for."""
    errors: Counter[str] = field(default_factory=Counter)
    """The code of an error → how often a participant heard it."""
    _accused: Counter[str] = field(default_factory=Counter)

    def accuse(self, check: str, what: str, story: str = "") -> None:
        self._accused[check] += 1
        if self._accused[check] <= SHOWN:
            self.violations.append(f"{check}: {what}\n{story}".rstrip())
        elif self._accused[check] == SHOWN + 1:
            self.violations.append(f"{check}: and more of the same")
