"""Somebody who looks into the tables the whole time: at every moment, and not only in the end, nothing may be wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.background import Background
from tests.support.tables import faults_of, tables_of

_PAUSE = 0.01


@contextmanager
def watched(url: str) -> Iterator[None]:
    """Looks again and again while the block runs, and once more when everybody is done."""
    is_over = threading.Event()

    def watch() -> int:
        tables, looks = tables_of(url), 0
        try:
            while not is_over.is_set():
                found = tables.faults()
                assert found == {}, found
                looks += 1
                is_over.wait(_PAUSE)
        finally:
            tables.close()
        return looks

    watching = Background(watch)
    try:
        yield
    finally:
        is_over.set()
        looks = watching.result(30)
    assert looks > 10, "hardly anybody looked"
    assert faults_of(url) == {}
