"""All that is fuzzed, by name."""

from __future__ import annotations

from tests.fuzz import bodies, connections, sources, values
from tests.fuzz.target import TARGETS

__all__ = ["TARGETS", "bodies", "connections", "sources", "values"]
