"""Our own source, read as text and as syntax; what the rules look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Module:
    path: str
    """From the root of the project, with slashes."""
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


def modules(folder: str) -> list[Module]:
    """Every Python file below the folder. Finding none would let every rule pass, so it is an error."""
    found = [Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sorted((ROOT / folder).rglob("*.py"))]
    if not found:
        raise LookupError(f"no Python files below {folder}/: was it moved? Then tell tests/architecture where it is now")
    return found
