"""Vacuum: removes files that no longer count, and files of unfinished runs, after some days."""

from __future__ import annotations

import os

import msgspec

from rowq.clock import SystemClock
from rowq.errors import InvalidArgument
from rowq.spark.pipeline.lake import Lake
from rowq.spark.pipeline.manifest import FOLDER
from rowq.spark.pipeline.storage import Stored
from rowq.store.stream.segment import KINDS

KEEP_MS = 7 * 86_400_000
"""For this long a file may still be being written, or a replaced one read."""


class Vacuumed(msgspec.Struct, frozen=True):
    files: int
    bytes: int
    names: list[str]


def vacuum(path: str | os.PathLike[str], *, older_than_ms: int = KEEP_MS, dry_run: bool = False) -> Vacuumed:
    """Removes them; with `dry_run` only reports them."""
    if older_than_ms < 0:
        raise InvalidArgument("a vacuum takes a duration of 0 or more")
    lake = Lake(path)
    cutoff = SystemClock().now() - older_than_ms
    # In this order: a file published between the two is in the manifest, or too young.
    stored = [file for folder in (*KINDS, FOLDER) for file in lake.storage.files(folder) if file.written_at <= cutoff]
    live = lake.snapshot().files
    gone = [file for file in stored if file.name not in live and not _is_version(file)]
    if not dry_run:
        for file in gone:
            lake.storage.remove(file.name)
    return Vacuumed(len(gone), sum(file.size for file in gone), [file.name for file in gone])


def _is_version(file: Stored) -> bool:
    return file.name.startswith(f"{FOLDER}/") and file.name.endswith(".json")
