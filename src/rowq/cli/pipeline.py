"""The data pipeline: archive, report, replay, compact, vacuum; with a Spark that is started when needed, and silent."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
import typer

import rowq
from rowq.cli.command import Session, actor
from rowq.cli.output import Failure
from rowq.cli.parameter import Queue, duration_option, moment
from rowq.cli.terminal import bar, hint
from rowq.cli.text import counted, size
from rowq.connect import refuse_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_OURS = re.compile(r"rowq\.errors\.\w+: (.+)")
_MOST = 400

Master = Annotated[str, typer.Option("--master", metavar="MASTER", help="Where Spark runs: local[4], spark://host:7077, yarn, …")]
Folder = Annotated[Path, typer.Argument(metavar="LAKE", help="The folder of the lake.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what there is to do.")]
Since = Annotated[int | None, typer.Option("--since", metavar="WHEN", parser=moment, help="From this moment: 2h (ago), 2026-01-31T09:30Z.")]
Until = Annotated[int | None, typer.Option("--until", metavar="WHEN", parser=moment, help="Up to this moment: as for --since.")]


def archive(
    session: Session,
    lake: Folder,
    purge: Annotated[bool, typer.Option("--purge", help="Then delete from the database what is in the lake.")] = False,
    purge_after: Annotated[float | None, duration_option("--purge-after", "The same, for what has been in the lake for this long.")] = None,
    segment_lines: Annotated[int, typer.Option("--segment-lines", help="At most this many lines are written at once.")] = 500_000,
    master: Master = LOCAL,
    dry_run: DryRun = False,
) -> None:
    """Copy history and audit into a lake of Parquet files.

    Every line arrives exactly once, whatever happens: run an interrupted archive again to continue it.
    Lines of transactions that are still open follow with the next run.
    """
    _require_spark()
    from rowq.spark.pipeline.archiving import KINDS, Archiver

    if segment_lines < 1:
        raise rowq.InvalidArgument("--segment-lines must be 1 or more")
    with Archiver(session.url, lake, actor=actor()) as archiver:
        pending = {kind: archiver.pending(kind) for kind in KINDS}
        archived: dict[str, int] = dict.fromkeys(KINDS, 0)
        purged: dict[str, int] = dict.fromkeys(KINDS, 0)
        if any(pending.values()) and not dry_run:
            with spark_session(master) as spark:
                for kind in KINDS:
                    with bar(f"archive {kind}", pending[kind]) as advance:
                        archived[kind] = archiver.archive(spark, kind, most=segment_lines, progress=advance).lines
        wait = purge_after if purge_after is not None else 0.0 if purge else None
        if wait is not None and not dry_run:
            for kind in KINDS:
                with bar(f"purge {kind}", None) as advance:
                    purged[kind] = archiver.purge(kind, after_ms=round(wait * 1000), progress=advance)
    if dry_run:
        session.output.answer(f"{counted(sum(pending.values()), 'line')} to archive; nothing was changed", pending=pending)
        return
    gone = f", {counted(sum(purged.values()), 'line')} deleted from the database" if wait is not None else ""
    session.output.answer(f"{counted(sum(archived.values()), 'line')} archived{gone}", archived=archived, purged=purged)


def report(
    session: Session,
    page: Annotated[Path, typer.Argument(metavar="PAGE", help="The HTML file to write.", show_default=False)],
    lake: Annotated[Path | None, typer.Option("--lake", help="Also what is in this lake.")] = None,
    only_lake: Annotated[bool, typer.Option("--only-lake", help="Only what is in the lake.")] = False,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated. Default: all.")] = None,
    since: Since = None,
    until: Until = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Also write the figures into this folder, as Parquet.")] = None,
    title: Annotated[str, typer.Option("--title", help="The title of the page.")] = "Queues",
    master: Master = LOCAL,
) -> None:
    """Write a page with plots of what happened in the queues.

    Throughput, waiting and processing times, retries, dead letters, kinds of failures, consumers and depth,
    from the audit and the history of the database, of a lake, or of both.
    """
    _require_spark()
    from rowq.spark.pipeline.lake import Lake
    from rowq.spark.pipeline.overview import overview
    from rowq.spark.pipeline.page import render
    from rowq.spark.pipeline.report import Source, reports, write_reports

    if only_lake and lake is None:
        raise rowq.InvalidArgument("--only-lake needs a lake: add --lake LAKE")
    refuse_server(session.url, "a report reads a database, and this is a server")
    if not page.absolute().parent.is_dir():
        raise rowq.InvalidArgument(f"{page} cannot be written because its folder does not exist: create it first")
    if lake is not None:
        Lake(lake).snapshot()  # before Spark is started in vain
    source = Source(lake=lake, url=None if only_lake else session.url, queues=tuple(queue or ()), since_ms=since, until_ms=until)
    with spark_session(master) as spark, bar("report", 1 + (parquet is not None)) as advance:
        found = reports(spark, source, persist=True)
        page.write_text(render(overview(found, title=title, now=rowq.SystemClock().now())), encoding="utf-8")
        advance(1)
        if parquet is not None:
            write_reports(found, parquet)
            advance(2)
    session.output.answer(f"written to {page}", page=str(page), parquet=None if parquet is None else str(parquet))


def replay(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of this replay; the same name continues it.", show_default=False)],
    queue: Queue,
    lake: Annotated[Path | None, typer.Option("--lake", help="Archived messages of this lake, instead of dead letters.")] = None,
    id: Annotated[list[str] | None, typer.Option("--id", help="Only this message; may be repeated.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only dead letters with this reason.")] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="Only archived messages with this outcome.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Only those whose error matches this regular expression.")] = None,
    since: Since = None,
    until: Until = None,
    to: Annotated[str | None, typer.Option("--to", metavar="QUEUE", help="Send archived messages into this queue.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="At most this many per second.")] = None,
    master: Master = LOCAL,
    dry_run: DryRun = False,
) -> None:
    """Put dead letters back into their queue, or send archived messages again.

    Each is replayed once: run an interrupted replay again under the same name to continue it. Dead letters
    keep their ids; archived messages are sent as new ones, with headers that say where they come from.
    """
    _require_spark()
    from rowq.spark.pipeline.lake import Lake
    from rowq.spark.pipeline.replaying import Choice, replay_archived, replay_dead

    choice = Choice(queue=queue, ids=tuple(id or ()), reason=reason, outcome=outcome, error=error, since_ms=since, until_ms=until)
    if lake is None and to is not None:
        raise rowq.InvalidArgument("dead letters go back into their own queue: --to is for archived messages, with --lake")
    if lake is not None:
        Lake(lake).snapshot()  # before Spark is started in vain
    with bar(f"replay {queue}", None) as advance:
        options: dict[str, Any] = {"rate": rate, "dry_run": dry_run, "actor": actor(), "progress": advance}
        if lake is None:
            result = replay_dead(session.url, name, choice, **options)
        else:
            with spark_session(master) as spark:
                result = replay_archived(spark, session.url, lake, name, choice, to=to, **options)
    if dry_run:
        sentence = f"{counted(result.matching - result.before, 'message')} to replay; nothing was changed"
    else:
        sentence = f"{counted(result.replayed, 'message')} replayed"
    lacking = f"; {counted(result.without_body, 'message')} archived without a payload" if result.without_body else ""
    session.output.answer(sentence + lacking, **msgspec.to_builtins(result))


def compact(session: Session, lake: Folder, master: Master = LOCAL, dry_run: DryRun = False) -> None:
    """Merge the small files of a lake, one per day."""
    _require_spark()
    from rowq.spark.pipeline.lake import Lake
    from rowq.spark.pipeline.maintenance import compact as compact_lake
    from rowq.spark.pipeline.maintenance import small_files

    small = small_files(Lake(lake).snapshot())
    files = sum(map(len, small.values()))
    if dry_run or not small:
        session.output.answer(f"{counted(files, 'small file')} to merge; nothing was changed", days=len(small), before=files, after=files)
        return
    with spark_session(master) as spark, bar("compact", len(small)) as advance:
        result = compact_lake(spark, lake, progress=advance)
    session.output.answer(f"{counted(result.before, 'file')} became {result.after:,}", **msgspec.to_builtins(result))


def vacuum(
    session: Session,
    lake: Folder,
    older_than: Annotated[
        float | None, duration_option("--older-than", "Keep younger ones, which may still be in use. Default: 7d.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove files that a lake no longer uses."""
    from rowq.spark.pipeline.maintenance import KEEP_MS
    from rowq.spark.pipeline.maintenance import vacuum as remove

    result = remove(lake, older_than_ms=KEEP_MS if older_than is None else round(older_than * 1000), dry_run=dry_run)
    done = "to remove; nothing was changed" if dry_run else "removed"
    session.output.answer(f"{counted(result.files, 'file')}, {size(result.bytes)}, {done}", **msgspec.to_builtins(result))


def _require_spark() -> None:
    from rowq.spark.session import check_installed

    check_installed()


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session for one command. The JVM's output goes to a file, which is shown if it does not start."""
    from rowq.spark import session

    hint("starting Spark, which takes a few seconds")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as words:
        try:
            with _stderr_into(words):
                spark = session(master, "rowq pipeline", **{"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
        except rowq.RowqError:
            raise
        except Exception as error:
            words.seek(0)
            raise Failure(f"Spark did not start: {_told(error)}; it said: {words.read()[-_MOST:]}", code="spark_failed") from None
        try:
            yield spark
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            raise Failure(f"Spark failed: {_told(error)}", code="spark_failed") from None
        finally:
            spark.stop()


@contextmanager
def _stderr_into(file: IO[str]) -> Iterator[None]:
    """For processes started inside the block, for as long as they live."""
    if sys.stderr is not None:
        sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _told(error: Exception) -> str:
    """The rowq error that an executor raised, if there is one; else the first line."""
    text = str(error)
    found = _OURS.search(text)
    return found[1] if found else " ".join(text.split("\n", 1)[0].split())[:_MOST]
