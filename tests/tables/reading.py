"""Everything that a table holds, read piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowq.spark.tables import SCHEMAS, Tabular


def rows_of(tabular: Tabular, kind: str, *, parts: int = 3, queues: Sequence[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    """Every batch has the schema that it should have, to the last detail."""
    bounds = tabular.bounds(kind, queues=queues)
    rows: list[dict[str, Any]] = []
    for piece in tabular.pieces(kind, bounds, parts, None) if bounds else []:
        for batch in tabular.read(piece, queues=queues, **options):
            if "columns" not in options:
                assert batch.schema.equals(SCHEMAS[kind], check_metadata=True)
            batch.validate(full=True)
            assert batch.num_rows > 0
            rows += batch.to_pylist()
    return rows


def said(row: dict[str, Any]) -> dict[str, Any]:
    """What is not NULL."""
    return {name: value for name, value in row.items() if value is not None}
