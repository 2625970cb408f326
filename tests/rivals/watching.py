"""Somebody who looks into the tables the whole time: at every moment, and not only in the end, nothing may be wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.background import Background
from tests.support.tables import MariadbTables, Tables, faults_of, tables_of

_PAUSE = 0.05


@contextmanager
def watched(url: str) -> Iterator[None]:
    """Looks again and again while the block runs, which begins after the first look, and once more when everybody is done."""
    has_looked, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        tables = tables_of(url)
        try:
            while not is_over.is_set():
                found = _faults(tables)
                assert found == {}, found
                has_looked.set()
                is_over.wait(_PAUSE)
        finally:
            has_looked.set()
            tables.close()

    watching = Background(watch)
    assert has_looked.wait(60)
    try:
        yield
    finally:
        is_over.set()
        watching.result(60)
    assert faults_of(url) == {}


def _faults(tables: Tables) -> dict[str, list[int]]:
    """A statement of MariaDB may see the rows of one transaction, and not those of another that was committed before them while it was
    taking its snapshot. So there only what is still to be seen a moment later is wrong."""
    found = tables.faults()
    if not found or not isinstance(tables, MariadbTables):
        return found
    again = tables.faults()
    still = {fault: [seq for seq in seqs if seq in again.get(fault, ())] for fault, seqs in found.items()}
    return {fault: seqs for fault, seqs in still.items() if seqs}
