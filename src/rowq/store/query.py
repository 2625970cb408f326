"""Reads the .sql files: named queries with `:parameters`, shared by all databases, overridden by name in `<topic>.<dialect>.sql`.

A query begins with `-- name: verb_noun`; text that several queries share begins with `-- fragment: noun` and replaces `{noun}` in them.
A dialect overrides either by its name. `:seqs[]` is a list; the dialect decides how to bind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.resources import files

LIST_PARAMETER = re.compile(r":([a-z_]+)\[\]")
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
VALUES = re.compile(r"VALUES (\([^()]*\))")
_HEADING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_TOPICS = (
    *("migrations", "sending", "moving", "leasing", "settling", "holding", "settings", "maintenance", "insights", "access", "examining"),
    "copying",
    "archiving",
    *("tabular", "watermark", "publishing"),
    *("ledger", "registry"),
    "peq",
)
_OF_ALL_TOPICS = "audit"
"""Its fragments are for the queries of all topics."""

_Blocks = dict[tuple[str, str], str]


class Queries:
    """The queries of one dialect: `queries["draw_seqs"]` with named parameters, or by position for rows in bulk."""

    def __init__(self, dialect: str, render: Callable[[str], str], words: Mapping[str, str] | None = None) -> None:
        """`words` are inserted like fragments."""
        texts: dict[str, str] = {}
        common = _fragments(_blocks(_OF_ALL_TOPICS, dialect)) | dict(words or {})
        for topic in _TOPICS:
            blocks = _blocks(topic, dialect)
            fragments = _fragments(blocks) | common
            texts |= {name: _put_in(text, fragments) for (kind, name), text in blocks.items() if kind == "name"}
        self._texts = {name: render(text) for name, text in texts.items()}
        self.positional: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def names(self) -> list[str]:
        return sorted(self._texts)

    def parameters(self, name: str) -> list[str]:
        return sorted(set(PARAMETER.findall(self._texts[name])))

    def by_position(self, name: str, columns: tuple[str, ...]) -> str:
        """The query with `?1`, `?2` … for rows whose values are in the order of `columns`, which is always the same for a query."""
        known = self.positional.get(name)
        if known is None:
            place = {column: f"?{number}" for number, column in enumerate(columns, 1)}
            known = self.positional[name] = PARAMETER.sub(lambda match: place[match[1]], self._texts[name])
        return known


def read_sql(file: str, *, missing_ok: bool = False) -> str:
    path = files("rowq.store").joinpath("sql", file)
    return "" if missing_ok and not path.is_file() else path.read_text(encoding="utf-8")


def _blocks(topic: str, dialect: str) -> _Blocks:
    return _parse(read_sql(f"{topic}.sql", missing_ok=True)) | _parse(read_sql(f"{topic}.{dialect}.sql", missing_ok=True))


def _fragments(blocks: _Blocks) -> dict[str, str]:
    return {name: text for (kind, name), text in blocks.items() if kind == "fragment"}


def _parse(source: str) -> _Blocks:
    pieces = _HEADING.split(source)[1:]
    return {(kind, name): _COMMENT.sub("", text).strip().removesuffix(";") for kind, name, text in zip(*[iter(pieces)] * 3, strict=True)}


def _put_in(text: str, fragments: Mapping[str, str]) -> str:
    while (filled := _FRAGMENT.sub(lambda match: fragments[match[1]], text)) != text:
        text = filled
    return text
