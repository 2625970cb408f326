"""Reads the .sql files: named queries with `:parameters`, shared by all databases, overridden by name in `<topic>.<dialect>.sql`.

A query opens with `-- name: verb_noun`; a piece that several of them share opens with `-- fragment: noun` and is put in
where another says `{noun}`. `:seqs[]` is a list; how a list is bound is the dialect's affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

LIST_PARAMETER = re.compile(r":([a-z_]+)\[\]")
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_TOPICS = ("migrations", "sending", "moving", "leasing", "settling", "holding", "settings", "upkeep", "insights", "access")


class Queries:
    """The queries of one dialect: `queries["draw_seqs"]` with named parameters, or by position for rows in bulk."""

    def __init__(self, dialect: str, render: Callable[[str], str]) -> None:
        texts: dict[str, str] = {}
        for topic in _TOPICS:
            texts |= _parse(read_sql(f"{topic}.sql"))
            texts |= _parse(read_sql(f"{topic}.{dialect}.sql", missing_ok=True))
        self._texts = {name: render(text) for name, text in texts.items()}
        self._positional: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def names(self) -> list[str]:
        return sorted(self._texts)

    def parameters(self, name: str) -> list[str]:
        return sorted(set(PARAMETER.findall(self._texts[name])))

    def by_position(self, name: str, columns: tuple[str, ...]) -> str:
        """The query with `?1`, `?2` … for rows whose values stand in the order of `columns`, always the same for a query."""
        known = self._positional.get(name)
        if known is None:
            place = {column: f"?{number}" for number, column in enumerate(columns, 1)}
            known = self._positional[name] = PARAMETER.sub(lambda match: place[match[1]], self._texts[name])
        return known


def read_sql(file: str, *, missing_ok: bool = False) -> str:
    path = files("rowq.store").joinpath("sql", file)
    return "" if missing_ok and not path.is_file() else path.read_text(encoding="utf-8")


def _parse(source: str) -> dict[str, str]:
    """The queries of one file by name, with its fragments put in."""
    pieces = _HEADING.split(source)[1:]
    blocks = {(kind, name): _COMMENT.sub("", text).strip().removesuffix(";") for kind, name, text in zip(*[iter(pieces)] * 3, strict=True)}
    fragments = {name: text for (kind, name), text in blocks.items() if kind == "fragment"}
    return {name: _FRAGMENT.sub(lambda match: fragments[match[1]], text) for (kind, name), text in blocks.items() if kind == "name"}
