"""The archive: lines of history and audit move from the database into a lake, each exactly once, whatever happens in between.

plan    a range of settled lines is recorded in the database, with their count
write   Spark writes them, under a name that no other attempt has
verify  the footers of the files contain as many rows
publish one version of the manifest names the files: from here on they count
commit  the database records it
purge   only now, and only on request, the lines are deleted from the database

A run interrupted anywhere leaves a plan, and perhaps files that no manifest names. The next run begins with that plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rowq.connect import open_engine, refuse_server
from rowq.errors import LakeError, LakeMismatch
from rowq.spark.pipeline.lake import MOMENT, Lake, another_database, read_lines
from rowq.spark.pipeline.manifest import File, Range, Snapshot
from rowq.spark.tables import open_tabular
from rowq.store.stream.segment import KINDS, Commit, Kind, Plan, Purge, Segment, count_lines, list_segments

__all__ = ["KINDS", "SEGMENT_LINES", "Archived", "Archiver", "archive", "write"]

SEGMENT_LINES = 500_000
PURGE_PIECE = 1_000

Progress = Callable[[int], None]


class Archived(msgspec.Struct, frozen=True):
    """The result of a run."""

    kind: Kind
    segments: int
    lines: int


class Archiver:
    """`with Archiver("sqlite:///jobs.db", "data/lake") as archiver: archiver.archive(spark, "history")`."""

    def __init__(self, url: str, lake: str | os.PathLike[str], *, actor: str | None = None) -> None:
        refuse_server(url, "an archive is taken from a database, and this is a server")
        self._url = url
        self.lake = Lake(lake)
        with ExitStack() as opened:
            self._engine = opened.enter_context(closing(open_engine(url, maintenance=False, migrate=False, actor=actor)))
            self._tabular = opened.enter_context(closing(open_tabular(url)))
            self._identity = self._engine.dialect.identity()
            self._opened = opened.pop_all()

    def pending(self, kind: Kind) -> int:
        """How many lines wait for a run. Changes and creates nothing."""
        snapshot = self.lake.manifest.snapshot()
        if snapshot is not None and snapshot.identity != self._identity:
            raise another_database(self.lake.storage.root)
        settled = self._tabular.settled(kind)
        with self._engine.dialect.reading() as session:
            known = list_segments(session, snapshot.lake, kind) if snapshot else []
            if snapshot is not None:
                self._compare(kind, known, snapshot)
            done = [segment.last for segment in known if segment.state != "intent"]
            return count_lines(session, kind, max(done, default=0) + 1, settled)[0]

    def archive(self, spark: SparkSession, kind: Kind, *, most: int = SEGMENT_LINES, progress: Progress | None = None) -> Archived:
        """Archives everything up to the last settled line; `most` lines per segment."""
        snapshot = self._open(kind)
        settled = self._tabular.settled(kind)
        segments = lines = 0
        while segment := self._engine.act(Plan(snapshot.lake, kind, settled, most)):
            lines += self._bring(spark, snapshot.lake, kind, segment)
            segments += 1
            if progress is not None:
                progress(lines)
        return Archived(kind, segments, lines)

    def purge(self, kind: Kind, *, after_ms: int = 0, progress: Progress | None = None) -> int:
        """Deletes from the database what has been in the lake for `after_ms`. Gives the number of lines."""
        snapshot = self._open(kind)
        self.lake.check_files(snapshot, kind)
        with self._engine.dialect.reading() as session:
            known = list_segments(session, snapshot.lake, kind)
        cutoff = self._engine.clock.now() - after_ms
        count = 0
        for segment in known:
            if segment.state == "committed" and (segment.committed_at or 0) <= cutoff:
                first: int | None = segment.first
                while first is not None:
                    gone, first = self._engine.act(Purge(snapshot.lake, kind, segment.number, first, segment.last, PURGE_PIECE))
                    count += gone
                    if progress is not None:
                        progress(count)
        return count

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self, kind: Kind) -> Snapshot:
        snapshot = self.lake.opened(self._identity, self._engine.clock.now())
        with self._engine.dialect.reading() as session:
            self._compare(kind, list_segments(session, snapshot.lake, kind), snapshot)
        return snapshot

    def _compare(self, kind: Kind, known: list[Segment], snapshot: Snapshot) -> None:
        """Refuses a database restored to a state before the lake, and a lake restored to a state before the database. Another run may be
        active: so what the lake had before, the database must know, and what the database knows must be in the lake by now."""
        refuse_restored(kind, known, snapshot)
        given = [segment.number for segment in known if segment.state != "intent"]
        if all((kind, number) in snapshot.segments for number in given):
            return
        held = self.lake.snapshot().segments
        for number in given:
            if (kind, number) not in held:
                raise LakeMismatch(
                    f"the database has archived segment {number} of {kind} into this lake, whose manifest lacks it: "
                    "restore the lake from a newer backup, or archive into a new one"
                )

    def _bring(self, spark: SparkSession, name: str, kind: Kind, segment: Segment) -> int:
        """One segment, from where it was left. Gives how many lines are in the lake."""
        if (kind, segment.number) not in self.lake.snapshot().segments:
            piece = self.lake.attempt(str(segment.number))
            write(spark, self._url, self.lake, kind, segment, piece)
            files = self.verify(kind, segment, piece)
            self._publish(kind, segment, files)
        known = self.lake.snapshot().segments[kind, segment.number]
        self._engine.act(Commit(name, kind, segment.number, known.rows))
        return known.rows

    def verify(self, kind: Kind, segment: Segment, piece: str) -> list[File]:
        """Lines removed by retention or a purge since they were planned may be missing; every other one must be there."""
        files = self.lake.written(kind, piece)
        rows = sum(file.rows for file in files)
        if rows != segment.lines:
            with self._engine.dialect.reading() as session:
                left = count_lines(session, kind, segment.first, segment.last)[0]
            if not left <= rows <= segment.lines:
                raise LakeError(
                    f"segment {segment.number} of {kind} has {segment.lines:,} lines, but {rows:,} arrived in the lake; nothing was "
                    "changed in the database: run the archive again"
                )
        return files

    def _publish(self, kind: Kind, segment: Segment, files: list[File]) -> None:
        rows = sum(file.rows for file in files)
        span = Range(kind, segment.number, segment.first, segment.last, rows)
        if not self.lake.publish(self._engine.clock.now(), "archived", files, segment=span):
            self.lake.discard(files)  # another run was first with the same segment


def archive(
    spark: SparkSession,
    url: str,
    lake: str | os.PathLike[str],
    *,
    kinds: tuple[Kind, ...] = KINDS,
    segment_lines: int = SEGMENT_LINES,
    purge_after_ms: int | None = None,
) -> list[Archived]:
    """Brings a lake up to date; with `purge_after_ms`, deletes from the database what has been in it for that long."""
    with Archiver(url, lake) as archiver:
        results = [archiver.archive(spark, kind, most=segment_lines) for kind in kinds]
        if purge_after_ms is not None:
            for kind in kinds:
                archiver.purge(kind, after_ms=purge_after_ms)
    return results


def write(spark: SparkSession, url: str, lake: Lake, kind: Kind, segment: Segment, piece: str) -> None:
    frame = read_lines(spark, url, kind, segment.first, segment.last, segment.lines)
    days = F.floor(F.unix_millis(F.col(MOMENT[kind])) / 86_400_000).cast("int")  # in UTC, whatever the timezone of the session
    columns = {"segment": F.lit(segment.number).cast("bigint"), "date": F.date_from_unix_date(days)}
    lake.write(frame.withColumns(columns), kind, piece)


def refuse_restored(kind: Kind, known: list[Segment], snapshot: Snapshot) -> None:
    """Refuses a lake whose manifest is ahead of the database, judged by segments listed after the manifest was read."""
    planned = {segment.number: segment for segment in known}
    for held in snapshot.segments.values():
        here = planned.get(held.number)
        if held.kind == kind and (here is None or (here.first, here.last) != (held.first, held.last)):
            raise LakeMismatch(
                f"the lake has segment {held.number} of {kind}, lines {held.first} to {held.last}, but the database does not: "
                "it was restored from a backup. Archive into a new lake, and read this one separately"
            )
