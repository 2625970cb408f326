"""A lake: history and audit as Parquet, by day, with a manifest that says which files count.

lake/_manifest/00000000000000000001.json        files added and removed, one version per file
lake/history/date=2026-01-31/piece=7-3f2a9c11/  one piece per segment and attempt, or the result of compacting several
lake/audit/date=2026-01-31/piece=…/
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rowq.errors import LakeError, LakeMismatch
from rowq.spark.pipeline.manifest import File, Manifest, Range, Snapshot, Version, open_storage
from rowq.store.stream.segment import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PER_TASK = 100_000
MOST_TASKS = 200

LINE = "line"
"""The column with the number of a line."""
MOMENT: dict[Kind, str] = {"history": "finished_at", "audit": "at"}
"""The column that determines the day of a line."""
PIECE = "piece"
"""The partition column that separates attempts to write. Readers do not see it."""


class Lake:
    """`Lake("data/lake")`: a folder, which need not exist yet."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.storage = open_storage(path)
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

    def write(self, frame: DataFrame, kind: Kind, piece: str) -> None:
        """Writes the files of a piece, by day and in order of line. Overwrites those of the same piece, which only a task of the same
        attempt can have written. Spark moves the files into place when all of them are complete."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = frame.withColumn(PIECE, F.lit(piece)).sortWithinPartitions("date", LINE)
        writer = frame.write.mode("overwrite").partitionBy("date", PIECE).option("partitionOverwriteMode", "dynamic")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(self.storage.path(kind))

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
    columns = f"{_ddl(kind)}, segment bigint, date date"
    if not files:
        return spark.createDataFrame([], columns)
    reader = spark.read.option("basePath", lake.storage.path(kind)).schema(f"{columns}, {PIECE} string")
    return reader.parquet(*(lake.storage.path(file.name) for file in files)).drop(PIECE)


def another_database(root: str) -> LakeMismatch:
    return LakeMismatch(f"the lake in {root} holds the lines of another database: name the lake of this one, or a new folder")


def _first_version(identity: int, now: int) -> Version:
    return Version(version=1, lake=secrets.token_hex(16), identity=identity, at=now, action="made")


def read_lines(
    spark: SparkSession, url: str, kind: Kind, first: int, last: int, count: int, columns: Sequence[str] | None = None
) -> DataFrame:
    """The lines from one number to another, both included; `count`: about how many there are."""
    from rowq.spark.tables import SCHEMAS

    chosen = list(columns or SCHEMAS[kind].names)
    if not count:
        return spark.createDataFrame([], _ddl(kind)).select(chosen)
    tasks = max(1, min(MOST_TASKS, -(-count // PER_TASK)))
    reader = spark.read.format("rowq").options(url=url, table=kind, columns=",".join(chosen), minPartitions=tasks)
    return reader.options(startingPosition=first, endingPosition=last).load()


def between(frame: DataFrame, moment: str, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The rows from one time on, up to another that is not included; None is no limit."""
    from pyspark.sql import functions as F  # noqa: N812

    if since_ms is not None:
        frame = frame.where(F.col(moment) >= F.timestamp_millis(F.lit(since_ms)))
    return frame if until_ms is None else frame.where(F.col(moment) < F.timestamp_millis(F.lit(until_ms)))


def _ddl(kind: Kind) -> str:
    """The columns of a kind as Spark DDL."""
    from rowq.spark.tables import SCHEMAS

    types = {"int64": "bigint", "timestamp[us, tz=UTC]": "timestamp"}
    return ", ".join(f"`{field.name}` {types.get(str(field.type), str(field.type))}" for field in SCHEMAS[kind])
