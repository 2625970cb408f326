"""A deliberate defect: one line of rowq, changed so that a promise breaks, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class NotThere(Exception):
    """The text that a defect changes is not in the source exactly once: the source has moved on, and the list must follow."""


@dataclass(frozen=True, kw_only=True)
class Defect:
    name: str
    breaks: str
    """What goes wrong with it, in one sentence."""
    file: str
    """Below src/."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Those that must notice, as pytest names them; the quickest there are."""
    hangs: int = 0
    """Seconds after which a test that hangs has noticed; 0 where a hang is no proof, since anything may hang."""

    def text(self, source: Path) -> str:
        """The file as it would read with the defect. `source` is src/, or a copy of it."""
        text = (source / self.file).read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise NotThere(f"{self.name}: its old text is {found} times in src/{self.file}, not once: bring it up to date")
        return text.replace(self.old, self.new)

    def apply(self, source: Path) -> None:
        text = self.text(source)
        (source / self.file).write_text(text, encoding="utf-8")
