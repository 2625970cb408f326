"""A lake: history and audit as Parquet, by day, with a manifest that says which files count.

lake/_manifest/00000000000000000001.json        files added and removed, one version per file
lake/history/date=2026-01-31/piece=7-3f2a9c11/  one piece per segment and attempt, or the result of compacting several
lake/audit/date=2026-01-31/piece=…/
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Literal

from rowq.errors import LakeError, LakeMismatch
from rowq.spark.pipeline.manifest import File, Manifest, Range, Snapshot, Version
from rowq.spark.pipeline.storage import Storage, open_storage
from rowq.store.stream.segment import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE = "piece"
"""The partition column that separates attempts to write. Readers do not see it."""


class Lake:
    """`Lake("data/lake")`: a folder, which need not exist yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.storage: Storage = open_storage(path)
        self.manifest = Manifest(self.storage)

    def snapshot(self) -> Snapshot:
        found = self.manifest.snapshot()
        if found is None:
            raise LakeError(f"there is no lake in {self.storage.root}: `rowq pipeline archive` creates one")
        return found

    def opened(self, identity: int, now: int) -> Snapshot:
        """For the database with that identity; created if it does not exist yet."""
        found = self.manifest.append(lambda before: None if before else _first_version(identity, now))
        if found is None or found.identity != identity:
            raise another_database(self.storage.root)
        return found

    def attempt(self, name: str) -> str:
        """A unique name for a piece."""
        return f"{name}-{secrets.token_hex(4)}"

    def written(self, kind: Kind, piece: str) -> list[File]:
        """The files of a piece, with the row counts from their own footers."""
        from pyarrow import parquet

        found = [stored for stored in self.storage.files(kind) if f"/{PIECE}={piece}/" in stored.name and stored.name.endswith(".parquet")]
        return [File(stored.name, parquet.read_metadata(self.storage.path(stored.name)).num_rows, stored.size) for stored in found]

    def publish(
        self,
        now: int,
        action: Literal["archived", "compacted"],
        add: list[File],
        *,
        segment: Range | None = None,
        remove: tuple[str, ...] = (),
    ) -> bool:
        """Writes one more version; False, and nothing changed, if another process has published the segment or replaced the files."""
        is_new = False

        def following(before: Snapshot | None) -> Version | None:
            nonlocal is_new
            known = self.snapshot() if before is None else before
            is_taken = segment is not None and (segment.kind, segment.number) in known.segments
            is_new = not is_taken and all(name in known.files for name in remove)
            if not is_new:
                return None
            return Version(
                version=known.version + 1,
                lake=known.lake,
                identity=known.identity,
                at=now,
                action=action,
                segment=segment,
                add=tuple(add),
                remove=remove,
            )

        self.manifest.append(following)
        return is_new

    def discard(self, files: list[File]) -> None:
        for file in files:
            self.storage.remove(file.name)

    def check_files(self, snapshot: Snapshot, kind: Kind) -> None:
        """Raises an error if a file that counts is missing or incomplete; called before anything is deleted."""
        sizes = {stored.name: stored.size for stored in self.storage.files(kind)}
        wrong = [file.name for file in snapshot.files_of(kind) if sizes.get(file.name) != file.size]
        if wrong:
            raise LakeError(f"{wrong[0]} is missing in the lake or differs in size from its manifest: restore it from a backup")


def read_lake(
    spark: SparkSession, path: str | os.PathLike[str], kind: Kind, *, since: str | None = None, until: str | None = None
) -> DataFrame:
    """All lines of a kind in a lake, according to its manifest, with a column `date`. `since` and `until` are days (2026-01-31), both
    included; files of other days are not read.

    >>> read_lake(spark, "data/lake", "history", since="2026-01-01").groupBy("queue").count()  # doctest: +SKIP
    """
    lake = Lake(path)
    chosen = [file for file in lake.snapshot().files_of(kind) if (since or "") <= file.date <= (until or "9")]
    return read_files(spark, lake, kind, chosen)


def read_files(spark: SparkSession, lake: Lake, kind: Kind, files: list[File]) -> DataFrame:
    from rowq.spark.pipeline.line import ddl

    if not files:
        return spark.createDataFrame([], f"{ddl(kind)}, segment bigint, date date")
    reader = spark.read.option("basePath", lake.storage.path(kind)).schema(f"{ddl(kind)}, segment bigint, date date, {PIECE} string")
    return reader.parquet(*(lake.storage.path(file.name) for file in files)).drop(PIECE)


def another_database(root: str) -> LakeMismatch:
    return LakeMismatch(f"the lake in {root} holds the lines of another database: name the lake of this one, or a new folder")


def _first_version(identity: int, now: int) -> Version:
    return Version(version=1, lake=secrets.token_hex(16), identity=identity, at=now, action="made")
