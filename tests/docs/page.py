"""The documents of the project, read as what they hold: fenced blocks, headings, links, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^( *)```(.*)$")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_CELL = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, its text, and the line on which that text begins, from 1."""

    info: str
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    path: str
    """From the root of the project, with slashes."""
    text: str

    @property
    def blocks(self) -> list[Block]:
        return _split(self.text)[1]

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _split(self.text)[0]

    @property
    def headings(self) -> list[str]:
        return _HEADING.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """What `#…` may name: headings as the usual renderers of Markdown spell them."""
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings}

    @property
    def links(self) -> list[str]:
        """The targets of links that lead into the project, anchors included."""
        return [target for target in _LINK.findall(_CODE.sub("", self.prose)) if "://" not in target]

    @property
    def code(self) -> list[str]:
        """Everything in single backticks."""
        return _CODE.findall(self.prose)

    def table(self, first: str) -> list[list[str]]:
        """The rows of the table whose first column has this title."""
        lines = iter(self.prose.splitlines())
        rows: list[list[str]] = []
        for line in lines:
            if line.startswith("|") and _cells(line)[0] == first:
                next(lines)  # |---|---|
                for row in lines:
                    if not row.startswith("|"):
                        return rows
                    rows.append(_cells(row))
        return rows

    def section(self, heading: str) -> str:
        """The text below a heading, up to the next one of the same or a higher level; code blocks included."""
        found = re.search(rf"^(#+) +{re.escape(heading)} *$", self.text, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.path} has no heading {heading!r}")
        rest = self.text[found.end() :]
        end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
        return rest[: end.start()] if end else rest


def page(path: str) -> Page:
    return Page(path, (ROOT / path).read_text(encoding="utf-8"))


def pages() -> list[Page]:
    """Every document of the project. Finding none would let every test pass, so it is an error."""
    found = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if not found:
        raise LookupError("no documents found: were they moved? Then tell tests/docs where they are now")
    return [page(path.relative_to(ROOT).as_posix()) for path in found]


def _cells(row: str) -> list[str]:
    return [cell.strip().replace(r"\|", "|") for cell in _CELL.split(row.strip().strip("|"))]


def _split(text: str) -> tuple[str, list[Block]]:
    """The prose and the fenced blocks of a page."""
    prose: list[str] = []
    blocks: list[Block] = []
    opened: tuple[str, int] | None = None
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence is not None:
            opened, held = (fence[2].strip(), number + 1), []
        elif opened is not None and fence is not None and not fence[2].strip():
            blocks.append(Block(opened[0], "\n".join(held) + "\n", opened[1]))
            opened = None
        elif opened is not None:
            held.append(line)
        else:
            prose.append(line)
    if opened is not None:
        raise ValueError(f"the block that begins before line {opened[1]} is not closed")
    return "\n".join(prose) + "\n", blocks
