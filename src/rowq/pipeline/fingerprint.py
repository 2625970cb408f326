"""What an error is about, without what differs from one time to the next: ids, numbers, paths, addresses, quoted values."""

from __future__ import annotations

import re

MOST = 200
"""Characters of a fingerprint."""

RULES: tuple[tuple[str, str], ...] = (
    (r"\s+", " "),
    (r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>)\]]+", "<url>"),
    (r"[\w.+-]+@[\w-]+\.[\w.-]+", "<mail>"),
    (r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}", "<id>"),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"(?:[A-Za-z]:)?(?:[\\/][\w.@%+~-]+){2,}[\\/]?", "<path>"),
    (r"\b0x[0-9a-fA-F]+\b", "<number>"),
    (r"\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b", "<id>"),
    (r"'[^']*'|\"[^\"]*\"", "<value>"),
    (r"[+-]?\b\d+(?:[.,]\d+)*", "<number>"),
)
"""Patterns that Python and Java read alike, in the order in which they are applied."""

_COMPILED = [(re.compile(pattern, re.ASCII), word) for pattern, word in RULES]


def fingerprint(error: str) -> str:
    """The same for errors that mean the same: `timeout after 31 s` and `timeout after 7 s` are `timeout after <number> s`."""
    text = error
    for pattern, word in _COMPILED:
        text = pattern.sub(word, text)
    return text.strip()[:MOST]
