"""Maintenance of a lake. Compaction: the small files of a day become one, and readers see either the old files or the new one. Vacuum:
files that no longer count, and files of unfinished runs, are removed after some days."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from rowq.clock import SystemClock
from rowq.errors import InvalidArgument, LakeBusy, LakeError
from rowq.spark.pipeline.lake import LINE, Lake, read_files
from rowq.spark.pipeline.manifest import FOLDER, File, Snapshot, Stored
from rowq.store.stream.segment import KINDS, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 128 << 20
"""Files of at least this many bytes are left alone."""
KEEP_MS = 7 * 86_400_000
"""For this long a file may still be being written, or a replaced one read."""


class Compacted(msgspec.Struct, frozen=True):
    days: int
    before: int
    """Files that were merged."""
    after: int


def small_files(snapshot: Snapshot) -> dict[tuple[Kind, str], list[File]]:
    """The files to merge, by kind and day."""
    found: defaultdict[tuple[Kind, str], list[File]] = defaultdict(list)
    for kind in KINDS:
        for file in snapshot.files_of(kind):
            if file.size < LARGE:
                found[kind, file.date].append(file)
    return {key: files for key, files in sorted(found.items()) if len(files) > 1}


def compact(spark: SparkSession, path: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None) -> Compacted:
    """Writes one version of the manifest per day and kind. The old files stay until a vacuum: readers may still use them."""
    lake = Lake(path)
    small = small_files(lake.snapshot())
    after = 0
    for number, ((kind, _), files) in enumerate(small.items(), 1):
        after += len(_compact(spark, lake, kind, files))
        if progress is not None:
            progress(number)
    return Compacted(len(small), sum(map(len, small.values())), after)


def _compact(spark: SparkSession, lake: Lake, kind: Kind, files: list[File]) -> list[File]:
    piece = lake.attempt("compact")
    count = max(1, -(-sum(file.size for file in files) // LARGE))
    frame = read_files(spark, lake, kind, files)
    lake.write(frame.coalesce(1) if count == 1 else frame.repartitionByRange(count, LINE), kind, piece)
    written = lake.written(kind, piece)
    before, now = sum(file.rows for file in files), sum(file.rows for file in written)
    if before != now:
        lake.discard(written)
        raise LakeError(f"{before:,} rows of {kind} became {now:,} when they were merged: nothing was changed; check the disk")
    if not lake.publish(SystemClock().now(), "compacted", written, remove=tuple(file.name for file in files)):
        lake.discard(written)
        raise LakeBusy("another process compacted the same days at the same time: this run changed nothing")
    return written


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
