"""The contents of the site, in the order of docs/README.md: a part for each of its headings, an entry for each page named there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from markdown_it.token import Token

from docs.site.document import parse, plain

START = PurePosixPath("docs/README.md")


@dataclass(frozen=True)
class Entry:
    title: str
    path: PurePosixPath
    below: list[Entry] = field(default_factory=list)
    """The pages of its folder that it lists, if it is the README of one."""


@dataclass(frozen=True)
class Part:
    title: str
    entries: list[Entry]


def contents(root: Path) -> list[Part]:
    parts = [Part("", [])]
    seen = {START}
    for heading, title, path in _links(root, START):
        if path not in seen:
            seen.add(path)
            if heading != parts[-1].title:
                parts.append(Part(heading, []))
            parts[-1].entries.append(Entry(title, path, list(_below(root, path))))
    return [part for part in parts if part.entries]


def in_order(parts: list[Part]) -> list[Entry]:
    """As somebody would read them, one after the other."""
    return [each for part in parts for entry in part.entries for each in (entry, *entry.below)]


def _below(root: Path, path: PurePosixPath) -> Iterator[Entry]:
    if path.name == "README.md" and path.parent.name and (root / path).is_file():
        yield from (Entry(title, found) for _, title, found in _links(root, path) if found.parent == path.parent)


def _links(root: Path, page: PurePosixPath) -> Iterator[tuple[str, str, PurePosixPath]]:
    """(heading, text, path) of every link to a document; in a row of a table the first, since what follows only tells about it."""
    heading, is_in_row, is_told = "", False, False
    tokens = parse((root / page).read_text(encoding="utf-8"))
    for before, token in pairwise(tokens):
        if token.type in {"tr_open", "tr_close"}:
            is_in_row, is_told = token.type == "tr_open", False
        elif token.type == "inline" and before.tag == "h2":
            heading = plain(token)
        elif token.type == "inline":
            for title, target in _targets(token):
                if not (is_in_row and is_told):
                    yield heading, title, PurePosixPath(os.path.normpath(page.parent / target))
                    is_told = True


def _targets(inline: Token) -> Iterator[tuple[str, str]]:
    """(text, target) of the links to documents, those to a place in one left out."""
    text = target = ""
    for child in inline.children or ():
        if child.type == "link_open":
            text, target = "", str(child.attrs["href"])
        elif child.type == "link_close" and target.endswith(".md") and "://" not in target:
            yield text, target
        else:
            text += child.content
