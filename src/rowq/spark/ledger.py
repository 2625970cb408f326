"""The ledger of streams, for consumers that take messages in numbered batches that can be read again; the Spark source uses it.

>>> from rowq.spark.ledger import open_ledger
>>> with open_ledger("sqlite:///jobs.db") as ledger:  # doctest: +SKIP
...     held = ledger.claim("orders", ["orders"])
...     batch = ledger.take("orders", held.epoch, held.acked, 1_000)
...     for slice in ledger.slices("orders", held.acked, batch, parts=4):
...         for rows in ledger.read(slice):
...             print(len(rows))
...     ledger.ack("orders", held.epoch, batch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from rowq.connect import RENAMED, open_engine, refuse_server
from rowq.deprecation import under_new_names
from rowq.engine.engine import Engine
from rowq.errors import InvalidArgument
from rowq.model.queue import check_own_name
from rowq.model.stream import Ahead, Slice, Stream, StreamClaim, check_stream_name
from rowq.store.dialect import Row, Session
from rowq.store.stream import ledger

__all__ = ["Ledger", "Slice", "Stream", "StreamClaim", "open_ledger"]

T = TypeVar("T")

_NO_LIMIT = 1 << 62
MOST_MESSAGES = 1_000_000
"""Maximum messages in one batch."""


def open_ledger(url: str, **options: Any) -> Ledger:
    """Opens the ledger in a database. The options are those of `rowq.connect`; maintenance is left to other processes."""
    refuse_server(url, "a stream needs a database, and this is a server")
    return Ledger(open_engine(url, **({"maintenance": False} | under_new_names(options, RENAMED))))


class Ledger:
    """Records which stream holds which batch. Every verb is one transaction; any number of threads may use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def claim(self, stream: str, queues: Sequence[str]) -> StreamClaim:
        """Takes over a stream, or creates it: an earlier holder is refused from now on."""
        name = check_stream_name(stream)
        if isinstance(queues, str) or not queues:
            raise InvalidArgument("a stream needs a list of the queues that it takes from")
        named = sorted({check_own_name(queue) for queue in queues})
        return self._engine.act(lambda work: ledger.claim(work, name, named))

    def take(self, stream: str, epoch: int, after: int, most: int, most_bytes: int | None = None) -> int:
        """The number of the batch after `after`: an existing one, else a new one of up to `most` messages with about `most_bytes` in total;
        `after` itself if there is nothing. Acks everything up to `after`."""
        size = _checked_size(most, most_bytes)
        return self._engine.act(lambda work: ledger.take(work, stream, epoch, after, most, size))

    def lease_ahead(
        self,
        stream: str,
        epoch: int,
        after: int,
        most: int,
        most_bytes: int | None = None,
        *,
        batches: int = 1,
        enough: int | None = None,
    ) -> int | None:
        """Leases one more batch for a later `take` while batch `after` is being processed, and acks nothing. Gives its number; `after`
        itself while fewer than `most` messages are ready, since a partial batch is not leased early; None when `batches` batches or
        `enough` messages are there, or when the stream has moved on."""
        if batches < 1:
            raise InvalidArgument(f"at least 1 batch is leased ahead, not {batches!r}")
        ahead = Ahead(batches, most, _checked_size(most, most_bytes), enough)
        return self._engine.act(lambda work: ledger.lease_ahead(work, stream, epoch, after, ahead))

    def ack(self, stream: str, epoch: int, upto: int) -> None:
        """All batches up to that one are done. Repeating it changes nothing."""
        self._engine.act(lambda work: ledger.ack(work, stream, epoch, upto))

    def beat(self, stream: str, epoch: int) -> None:
        """The holder's heartbeat; StreamTaken if it no longer holds the stream."""
        self._engine.act(lambda work: ledger.beat(work, stream, epoch), durable=False)

    def slices(self, stream: str, after: int, upto: int, parts: int, most: int | None = None) -> list[Slice]:
        """The batches after `after` up to `upto` in about `parts` slices, each of at most `most` messages unless a group has more."""
        if parts < 1 or (most is not None and most < 1):
            raise InvalidArgument(f"a batch is cut into at least one slice of at least one message, not {parts!r} of {most!r}")
        return self._read(lambda session: ledger.cut(session, stream, after, upto, parts, most))

    def read(self, slice: Slice) -> Iterator[list[Row]]:
        """The messages of a slice in order, some hundred at a time, as rows of (place, seq, queue, attempts, leased_at, format, payload,
        headers, sent_at, message_key, group_key, priority, own_id). LeaseLost or StreamRevoked if they are no longer in the batch."""
        self._engine.check_open()
        with self._engine.dialect.reading() as session:
            yield from ledger.read_slice(session, slice)

    def lag(self, queues: Sequence[str]) -> dict[str, int]:
        """How much waits in the queues together, and how long the first ready message has been there."""
        return self._read(lambda session: ledger.measure(session, queues, self._engine.clock.now()))

    def streams(self) -> list[Stream]:
        return self._engine.driver.drive(self._engine.verbs.look(self._engine.insights.streams))

    def revoke(self, stream: str) -> int:
        """Returns everything that is not settled to its queues, and gives the count. This ends old checkpoints of the stream."""
        return self._engine.driver.drive(self._engine.verbs.revoke_stream(stream))

    def quarantine(self, stream: str, batch: int, ids: Sequence[str], reason: str) -> int:
        """Turns messages of a batch into dead letters, and gives the count. The batch continues without them."""
        return self._engine.driver.drive(self._engine.verbs.quarantine(stream, batch, ids, reason))

    def identity(self) -> int:
        """A number that identifies this database; copies of it share it."""
        self._engine.check_open()
        return self._engine.dialect.identity()

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _read(self, look: Callable[[Session], T]) -> T:
        self._engine.check_open()
        with self._engine.dialect.reading() as session:
            return look(session)


def _checked_size(most: int, most_bytes: int | None) -> int:
    """How many bytes a batch may have."""
    if type(most) is not int or not 1 <= most <= MOST_MESSAGES:
        raise InvalidArgument(f"a batch has between 1 and {MOST_MESSAGES} messages, not {most!r}")
    if most_bytes is not None and most_bytes < 1:
        raise InvalidArgument(f"a batch has at least 1 byte, not {most_bytes!r}")
    return _NO_LIMIT if most_bytes is None else most_bytes
