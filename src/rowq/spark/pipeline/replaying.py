"""Replays: dead letters go back into their queue, archived messages are sent again, each once, at a rate.

A replay has a name. Its selection is fixed on the first run; run again under the same name, it continues where it was interrupted, and
finds nothing to do once it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING

import msgspec

from rowq.broker import Broker
from rowq.connect import open_engine, refuse_server
from rowq.engine.engine import Engine
from rowq.errors import InvalidArgument, OutcomeUnknown
from rowq.model.message import Message
from rowq.model.queue import check_own_name
from rowq.spark.pipeline.lake import LINE, MOMENT, Lake, between, read_files
from rowq.spark.publish import Mapping, Publisher, open_publisher
from rowq.store.stream import replay
from rowq.store.stream.segment import last_publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK = 1_000
REPLAY_HEADER, ORIGIN_HEADER = "rowq-replay", "rowq-replay-of"
"""On a message that was sent again: the name of the replay, and the id under which it was archived."""
_MOST_DOUBTS = 5
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

Progress = Callable[[int], None]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages a replay takes: all that match every given field. Times are milliseconds since 1970: of the death of a dead letter, or
    of the end of an archived message; `since_ms` is included, `until_ms` is not."""

    queue: str
    ids: tuple[str, ...] = ()
    reason: str | None = None
    """For dead letters only."""
    outcome: str | None = None
    """For archived messages only."""
    error: str | None = None
    """A regular expression to find anywhere in the last error."""
    since_ms: int | None = None
    until_ms: int | None = None

    def __post_init__(self) -> None:
        check_own_name(self.queue)
        try:
            re.compile(self.error or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgument(f"{self.error!r} is not a regular expression: {error}") from None

    def digest(self, *others: str) -> int:
        """Identifies the choice."""
        data = msgspec.json.encode([msgspec.to_builtins(self), *others])
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) >> 2

    def takes(self, letter: Message) -> bool:
        """Whether a dead letter matches."""
        at = letter.died_at or 0
        return (
            (not self.ids or letter.id in self.ids)
            and self.reason in (None, letter.reason)
            and (self.error is None or re.search(self.error, letter.error or "") is not None)
            and (self.since_ms is None or at >= self.since_ms)
            and (self.until_ms is None or at < self.until_ms)
        )

    def among(self, history: DataFrame) -> DataFrame:
        """The archived messages that match."""
        from pyspark.sql import functions as F  # noqa: N812

        frame = history.where(F.col("queue") == self.queue)
        if self.ids:
            frame = frame.where(F.col("id").isin(*self.ids))
        if self.outcome is not None:
            frame = frame.where(F.col("outcome") == self.outcome)
        if self.error is not None:
            frame = frame.where(F.coalesce(F.col("error"), F.lit("")).rlike(self.error))
        return between(frame, MOMENT["history"], self.since_ms, self.until_ms)


class Replayed(msgspec.Struct, frozen=True):
    """The result of a run."""

    matching: int
    """Messages that match and are, at this run, still there to be replayed."""
    replayed: int
    """By this run."""
    before: int = 0
    """By earlier runs."""
    without_body: int = 0
    """Archived without a payload, as configured for their queue: they cannot be sent again."""


def replay_dead(
    url: str,
    name: str,
    choice: Choice,
    *,
    rate: float | None = None,
    dry_run: bool = False,
    actor: str | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Puts dead letters back into their queue: same id, same place, as if new. Those that died after the first run began are excluded, so
    that a message that dies again is not taken twice."""
    if choice.outcome is not None:
        raise InvalidArgument("dead letters have a reason, not an outcome: choose them by reason")
    _check_rate(rate)
    with _opened(url, actor) as engine:
        course = _begun(engine, _check_name(name), choice.digest("dead"), 0, 1, dry_run=dry_run)
        broker = Broker(engine)
        letters = broker.walk(choice.queue, states=["dead"])
        ids = [letter.id for letter in letters if choice.takes(letter) and (letter.died_at or 0) <= course.begun_at]
        if dry_run or not ids:
            return Replayed(len(ids), 0)
        return Replayed(len(ids), broker.redrive(choice.queue, ids=ids, rate=rate, progress=progress))


def replay_archived(
    spark: SparkSession,
    url: str,
    lake: str | os.PathLike[str],
    name: str,
    choice: Choice,
    *,
    to: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    actor: str | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Sends archived messages again, as new ones, with headers that say where they come from; into their queue, or into `to`. Messages
    archived after the first run began are excluded."""
    if choice.reason is not None:
        raise InvalidArgument("archived messages have an outcome, not a reason: choose them by outcome")
    queue = check_own_name(to or choice.queue)
    source = Lake(lake)
    snapshot = source.snapshot()
    held = snapshot.last_segment("history")
    size = CHUNK if _check_rate(rate) is None else max(1, min(CHUNK, int(rate or 1)))
    with _opened(url, actor) as engine:
        digest = choice.digest("archived", snapshot.lake, queue)
        course = _begun(engine, _check_name(name), digest, held.last if held else 0, size, dry_run=dry_run)
        with engine.dialect.reading() as session:
            done = last_publication(session, _writer(name)) or 0
    meant = choice.among(read_files(spark, source, "history", snapshot.files_of("history"))).where(f"{LINE} <= {course.upto}")
    lines = array("q", (row[0] for row in meant.where("payload IS NOT NULL").select(LINE).orderBy(LINE).toLocalIterator()))
    found = Replayed(len(lines), 0, min(len(lines), done * course.chunk), meant.where("payload IS NULL").count())
    if dry_run:
        return found
    with closing(open_publisher(url, actor=actor)) as publisher:
        for sent in _publish(publisher, _marked(meant, name), lines, name, queue, course.chunk, done, rate):
            found = msgspec.structs.replace(found, replayed=found.replayed + sent)
            if progress is not None:
                progress(found.before + found.replayed)
    return found


def _publish(
    publisher: Publisher, meant: DataFrame, lines: array[int], name: str, queue: str, chunk: int, done: int, rate: float | None
) -> Iterator[int]:
    """One chunk after another, each under its number, so that a repetition is detected. Gives how many were sent."""
    mapping = Mapping(queue=queue, payload="payload", format="format", headers="headers", key="key", group="group", priority="priority")
    started, sent = monotonic(), 0
    for number, first in enumerate(range(done * chunk, len(lines), chunk), done + 1):
        piece = lines[first : first + chunk]
        rows = meant.where(f"payload IS NOT NULL AND {LINE} BETWEEN {piece[0]} AND {piece[-1]}").orderBy(LINE).toArrow()
        stage = str(uuid.uuid4())
        count = publisher.stage(stage, iter(rows.to_batches()), mapping)
        is_new = _publish_surely(publisher, _writer(name), number, (stage, count))
        if not is_new:
            publisher.discard([(stage, count)])
        yield count if is_new else 0
        sent += count
        if rate is not None and first + chunk < len(lines):
            sleep(max(0.0, started + sent / rate - monotonic()))


def _publish_surely(publisher: Publisher, writer: str, number: int, stage: tuple[str, int]) -> bool:
    """Repeats a commit whose answer was lost: it is published once in any case."""
    for _ in range(_MOST_DOUBTS):
        try:
            return publisher.publish(writer, number, [stage])
        except OutcomeUnknown:
            continue
    raise OutcomeUnknown("the database repeatedly did not confirm whether a chunk was published: run the replay again to continue")


def _marked(meant: DataFrame, name: str) -> DataFrame:
    """Adds the headers of the replay; they replace those of an earlier one."""
    from pyspark.sql import functions as F  # noqa: N812

    own = F.coalesce(F.from_json("headers", "map<string,string>"), F.from_json(F.lit("{}"), "map<string,string>"))
    kept = F.map_filter(own, lambda key, value: ~key.isin(REPLAY_HEADER, ORIGIN_HEADER))
    told = F.create_map(F.lit(REPLAY_HEADER), F.lit(name), F.lit(ORIGIN_HEADER), F.col("id"))
    columns = (LINE, "payload", "format", "key", "group", "priority")
    return meant.withColumn("headers", F.to_json(F.map_concat(kept, told))).select(*columns, "headers")


def _begun(engine: Engine, name: str, digest: int, upto: int, chunk: int, *, dry_run: bool) -> replay.Course:
    if dry_run:
        with engine.dialect.reading() as session:
            course = replay.read_course(session, name) or replay.Course(digest, engine.clock.now(), upto, chunk)
    else:
        course = engine.act(lambda tx: replay.begin(tx, name, digest, upto, chunk))
    if course.choice != digest:
        raise InvalidArgument(
            f"the replay {name!r} was started with another selection of messages: use the same options, or give this one a new name"
        )
    return course


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} is not a name for a replay: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return name


def _check_rate(rate: float | None) -> float | None:
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidArgument(f"a rate is a number of messages a second, more than 0, not {rate!r}")
    return rate


@contextmanager
def _opened(url: str, actor: str | None) -> Iterator[Engine]:
    refuse_server(url, "a replay writes to a database, and this is a server")
    with closing(open_engine(url, maintenance=False, migrate=False, actor=actor)) as engine:
        yield engine


def _writer(name: str) -> str:
    return f"replay:{name}"
