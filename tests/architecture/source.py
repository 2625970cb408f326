"""Our own source, read as text and as syntax; what the rules look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Module:
    path: str
    """From the root of the project, with slashes."""
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parsed(self)

    def nodes(self) -> Iterator[ast.AST]:
        return iter(_nodes(self))

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


@cache
def _parsed(module: Module) -> ast.Module:
    return ast.parse(module.text, module.path)


@cache
def _nodes(module: Module) -> list[ast.AST]:
    return list(ast.walk(_parsed(module)))


@cache
def modules(folder: str) -> list[Module]:
    """Every Python file below the folder. Finding none would let every rule pass, so it is an error."""
    found = [Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in sorted((ROOT / folder).rglob("*.py"))]
    if not found:
        raise LookupError(f"no Python files below {folder}/: was it moved? Then tell tests/architecture where it is now")
    return found
