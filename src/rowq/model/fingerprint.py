"""The fingerprint of an error: its text without the variable parts, which are ids, numbers, paths, addresses and quoted values."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

LOOKED_AT = 400
"""How many characters of an error are used."""

MOST = 200
"""Maximum characters of a fingerprint."""

RULES: tuple[tuple[str, str], ...] = (
    (r"\s+", " "),
    (r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>)\]]+", "<url>"),
    (r"[\w.+-]+@[\w-]+\.[\w.-]+", "<mail>"),
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "<id>"),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"[A-Za-z]:[\\/][\w.@%+~-]+(?:[\\/][\w.@%+~-]+)+[\\/]?", "<path>"),
    (r"[\\/][\w.@%+~-]+(?:[\\/][\w.@%+~-]+)+[\\/]?", "<path>"),
    (r"\b0x[0-9a-fA-F]+\b", "<number>"),
    (r"\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b", "<id>"),
    (r"'[^']*'|\"[^\"]*\"", "<value>"),
    (r"[+-]?\b\d+(?:[.,]\d+)*", "<number>"),
)
"""Patterns that Python and Java interpret alike, in the order in which they are applied."""

_LONG_HEX = re.compile("[0-9a-fA-F]{12}")
_POSSIBLE: tuple[Callable[[str], bool], ...] = (
    lambda text: "  " in text or not text.isprintable(),
    lambda text: "://" in text,
    lambda text: "@" in text,
    lambda text: text.count("-") > 3,
    lambda text: text.count("-") > 1,
    lambda text: text.count(".") > 2,
    lambda text: ":/" in text or ":\\" in text,
    lambda text: text.count("/") + text.count("\\") > 1,
    lambda text: "0x" in text,
    lambda text: _LONG_HEX.search(text) is not None,
    lambda text: text.count("'") > 1 or text.count('"') > 1,
    lambda text: True,
)
"""Whether a rule can match at all. Thousands of errors are grouped while a page loads, and most rules are slow."""

_COMPILED = [(re.compile(pattern, re.ASCII), word, possible) for (pattern, word), possible in zip(RULES, _POSSIBLE, strict=True)]


def fingerprint(error: str) -> str:
    """The same for errors that mean the same: `timeout after 31 s` and `timeout after 7 s` are `timeout after <number> s`."""
    return _of_beginning(error[:LOOKED_AT])


@lru_cache(maxsize=20_000)  # twice as many as a page groups: with fewer, each new one would evict the next one needed
def _of_beginning(text: str) -> str:
    for pattern, word, possible in _COMPILED:
        if possible(text):
            text = pattern.sub(word, text)
    return text.strip()[:MOST]
