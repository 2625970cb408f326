"""Rows of Arrow batches into queues: staged by any number of processes, and published by one of them, once.

    with open_publisher(url) as publisher:
        count = publisher.stage(stage, batches, Mapping(queue="orders"))      # each task, under a name that is never used twice
        publisher.publish("nightly", 7, [(stage, count), …])                  # once for all of them

Publishing is one transaction: all messages are in their queues, or none. The same version of the same writer is published once,
however often it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import pyarrow as pa

from rowq.connect import open_engine
from rowq.engine.engine import Engine
from rowq.errors import InvalidArgument, PayloadRejected, PayloadTooLarge, RowqError
from rowq.model.draft import Prepared, check_moment
from rowq.model.mapping import Drafting, Mapping
from rowq.model.payload import Format, decode
from rowq.model.queue import Settings
from rowq.model.text import check_text
from rowq.store.call import Call, Execute, sends_of
from rowq.store.dialect import ArrowDriver
from rowq.store.policy import Known, check_payload
from rowq.store.stream import stage as staging
from rowq.store.stream.arrow import pieces_of, to_staged
from rowq.store.transaction import Transaction

__all__ = ["Mapping", "Publisher", "open_publisher"]

T = TypeVar("T")
ROWS, MOST_ROWS, _BYTES = 10_000, 1_000_000, 8 << 20
"""How much one transaction writes when rows are staged or sent directly: rows by default, maximum rows, and approximate bytes."""
_LONGEST_STAGE, _LONGEST_WRITER = 64, 255


def open_publisher(url: str, *, actor: str | None = None, rows: int = ROWS) -> Publisher:
    """Opens nothing before it is needed. `actor`: the name in the audit. `rows`: how many a transaction writes at most."""
    if type(rows) is not int or not 1 <= rows <= MOST_ROWS:
        raise InvalidArgument(f"one transaction writes between 1 and {MOST_ROWS} rows, not {rows!r}")
    return Publisher(url, actor, rows)


class Publisher:
    def __init__(self, url: str, actor: str | None = None, rows: int = ROWS) -> None:
        self._url = url
        self._actor = actor
        self._rows = rows
        self._engine: Engine | None = None
        self._driver: ArrowDriver | None = None

    def stage(self, stage: str, batches: Iterable[pa.RecordBatch], mapping: Mapping) -> int:
        """Stages the rows under a name that is never reused, and gives their count. A row that its queue would refuse raises the error of a
        send, with the row's number; what was staged before it is never published, and removed after a day."""
        _check_name(stage, "the name of a stage", _LONGEST_STAGE)
        place = 0
        driver = self._open_driver()
        for messages in self._prepared(batches, mapping):
            if driver is not None:
                driver.write("rowq_staged", to_staged(stage, place, self._open().clock.now(), messages))
            else:
                self._run(Execute(partial(staging.put_down, stage=stage, first=place, messages=messages), durable=False))
            place += len(messages)
        return place

    def publish(self, writer: str, version: int, stages: Sequence[tuple[str, int]], *, kept: int | None = None) -> bool:
        """Turns everything staged under these names into messages, in one transaction; each name comes with its count. False if this
        version of the writer was published before. QueueFull, IdTaken and StagingLost leave everything unchanged. Within a queue the
        messages of a stage keep their order, but those with a key, a group, an id or a time of their own come after the others. `kept`: how
        many versions are remembered, for a writer that counts up and never asks for older ones; else all are."""
        _check_name(writer, "a writer", _LONGEST_WRITER)
        if type(version) is not int or not 0 <= version < 1 << 62:
            raise InvalidArgument(f"a version is a whole number from 0 on, not {version!r}")
        return self._publish(lambda tx: staging.publish(tx, writer, version, stages, kept), stages)

    def publish_unnumbered(self, stages: Sequence[tuple[str, int]]) -> None:
        """The same for a writer that never repeats itself; nothing is remembered. It still happens once: the first call uses up what was
        staged, and a second one would raise StagingLost."""
        self._publish(lambda tx: staging.publish_stages(tx, stages), stages)

    def discard(self, stages: Sequence[tuple[str, int]]) -> None:
        """What was staged under these names will not be published."""
        self._run(Execute(lambda tx: staging.discard(tx, [stage for stage, _ in stages]), durable=False))

    def send_directly(self, batches: Iterable[pa.RecordBatch], mapping: Mapping) -> int:
        """Sends rows as they arrive, a few thousand at a time: a writer that is interrupted and starts again sends some of them twice."""
        count = 0
        for messages in self._prepared(batches, mapping):
            for call in sends_of(messages):
                self._run(call)
            count += len(messages)
        return count

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        engine, self._engine, self._driver = self._engine, None, None
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = open_engine(self._url, maintenance=False, migrate=False, actor=self._actor)
        return self._engine

    def _open_driver(self) -> ArrowDriver | None:
        if self._driver is None:
            self._driver = self._open().dialect.arrow()
        return self._driver

    def _run(self, call: Call[T]) -> T:
        return self._open().perform(call)

    def _prepared(self, batches: Iterable[pa.RecordBatch], mapping: Mapping) -> Iterator[list[Prepared]]:
        """Checked messages, as many at a time as one transaction should write."""
        drafting, bounds = Drafting(mapping), _Bounds(self._open())
        return pieces_of(_checked(batches, drafting, bounds), self._rows, _BYTES, lambda message: len(message.payload))

    def _publish(self, act: Callable[[Transaction], T], stages: Sequence[tuple[str, int]]) -> T:
        if len({stage for stage, _ in stages}) != len(stages):
            raise InvalidArgument("a stage is named twice: name each once")
        try:
            return self._run(Execute(act))
        except staging.Abandoned as abandoned:
            raise abandoned.error from None


class _Bounds:
    """The payload limits of queues, each read once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Known] = {}

    def check(self, messages: list[Prepared], first: int) -> None:
        now = self._engine.clock.now()
        for row, message in enumerate(messages, first):
            known = self._known.get(message.queue) or self._learn(message.queue)
            try:
                _check(message, known, now)
            except RowqError as error:
                raise type(error)(f"row {row}: {error}") from None

    def _learn(self, queue: str) -> Known:
        known = self._known[queue] = Known(Settings(), self._engine.insights.policy(queue), is_stored=True)
        return known


def _check(message: Prepared, known: Known, now: int) -> None:
    check_moment(message, now)
    policy, size = known.policy, len(message.payload)
    if size > policy.max_payload_bytes:
        raise PayloadTooLarge(
            f"the payload takes {size} bytes, {message.queue!r} allows {policy.max_payload_bytes}: "
            "send a reference to it, or raise max_payload_bytes"
        )
    if policy.schema is not None:
        if message.format == Format.BYTES:
            raise PayloadRejected("the payload is bytes, but the queue's schema requires JSON")
        check_payload(known, decode(message.format, message.payload))


def _checked(batches: Iterable[pa.RecordBatch], drafting: Drafting, bounds: _Bounds) -> Iterator[Prepared]:
    seen = 0
    for batch in batches:
        messages = drafting.messages(batch)
        bounds.check(messages, seen)
        seen += len(messages)
        yield from messages


def _check_name(name: object, what: str, longest: int) -> None:
    if not isinstance(name, str) or not 1 <= len(check_text(name, what)) <= longest:
        raise InvalidArgument(f"{what} must be text of 1 to {longest} characters, not {name!r}")
