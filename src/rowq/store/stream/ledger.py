"""The ledger: which messages are in which batch of which stream, and which of them are settled. Each verb is one transaction that locks the
stream's row first, and raises errors before it writes anything. Batches are read in slices, each by a task of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from rowq.errors import InvalidArgument, LeaseLost, StreamNotFound, StreamTaken
from rowq.ids import Receipt
from rowq.model.lifecycle import Ack
from rowq.model.stream import Ahead, Slice, Stream, StreamClaim
from rowq.store import groups
from rowq.store.call import Settle
from rowq.store.dialect import Row, Session
from rowq.store.settle import settle
from rowq.store.stream.batch import gather
from rowq.store.transaction import Transaction

T = TypeVar("T")

KEPT_BATCHES = 200
"""How many settled batches stay listed: Spark itself remembers a hundred."""
BEAT_EVERY_MS = 1_000
"""How often an idle stream writes its heartbeat: writing it at each call would be a sync for nothing."""
_COLUMNS = ("name", "queues", "epoch", "next_batch", "acked_batch", "floor", "created_at", "beat_at", "batches", "messages")
"""In the rows of a stream, in order."""
_PIECE = 1_000
_ROWS = 500
"""How many messages of a slice are read at once."""


def claim(tx: Transaction, name: str, queues: Sequence[str]) -> StreamClaim:
    """The last claim owns the stream: older epochs are refused from now on."""
    _refuse_at_most_once(tx, queues)
    tx.session.write("insert_stream", name=name, queues=_json(queues), created_at=tx.now)
    stream = lock(tx, name)
    advance(tx, stream, epoch=stream.epoch + 1, queues=list(queues))
    return StreamClaim(stream.epoch + 1, stream.acked_batch, stream.floor)


def take(tx: Transaction, name: str, epoch: int, after: int, most: int, most_bytes: int) -> int:
    """Settles the batches up to the checkpoint `after`, and returns the number of the next batch; `after` itself if there is nothing."""
    stream = lock(tx, name)
    stream.check(epoch, after)
    known: int | None = tx.session.rows("find_batch_after", stream=name, after=after)[0][0]
    if known is None:
        _refuse_at_most_once(tx, stream.queues)
    _ack(tx, stream, after)
    number, next_batch = after if known is None else known, stream.next_batch
    if known is None and _lease_batch(tx, stream, most, most_bytes):
        number, next_batch = stream.next_batch, stream.next_batch + 1
    is_idle = number == after == stream.acked_batch
    if not is_idle or tx.now - stream.beat_at >= BEAT_EVERY_MS:
        advance(tx, stream, acked_batch=after, next_batch=next_batch)
    return number


def lease_ahead(tx: Transaction, name: str, epoch: int, after: int, ahead: Ahead) -> int | None:
    """Leases one more batch after the existing ones, without settling any. None if there are enough, or if the stream has moved on: asking
    for its next batch also asks for later ones."""
    stream = lock(tx, name)
    has_gone_on = stream.floor <= after < stream.acked_batch
    stream.check(epoch, stream.acked_batch if has_gone_on else after)
    sizes = [messages for _, messages in tx.session.rows("list_batches", stream=name, after=after, upto=stream.next_batch)]
    if has_gone_on or len(sizes) >= ahead.batches or (ahead.enough is not None and sum(sizes) >= ahead.enough):
        return None
    _refuse_at_most_once(tx, stream.queues)
    if not _is_a_batch_ready(tx, stream, ahead.most) or not _lease_batch(tx, stream, ahead.most, ahead.most_bytes):
        return after
    advance(tx, stream, next_batch=stream.next_batch + 1)
    return stream.next_batch


def ack(tx: Transaction, name: str, epoch: int, upto: int) -> None:
    stream = lock(tx, name)
    stream.check(epoch, max(upto, stream.acked_batch) if upto >= stream.floor else upto)
    _ack(tx, stream, upto)
    advance(tx, stream, acked_batch=max(upto, stream.acked_batch))


def beat(tx: Transaction, name: str, epoch: int) -> None:
    if not tx.session.run("beat_stream", name=name, epoch=epoch, beat_at=tx.now):
        find(tx.session, name).check_epoch(epoch)
        raise StreamTaken(f"the stream {name!r} changed its owner just now: try again")


def find(session: Session, name: str) -> Stream:
    return _known(session.row("find_stream", name=name), name)


def list_streams(session: Session) -> list[Stream]:
    return [_stream(row) for row in session.rows("list_streams")]


def measure(session: Session, queues: Sequence[str], now: int) -> dict[str, int]:
    """Counts the messages of several queues together."""
    rows = [session.rows("measure_lag", queue=queue)[0] for queue in queues]
    ready, scheduled, blocked, leased = (sum([row[number] for row in rows]) for number in range(4))
    oldest = min([row[4] for row in rows if row[4] is not None], default=now)
    return {"ready": ready, "scheduled": scheduled, "blocked": blocked, "leased": leased, "oldest_ready_ms": max(0, now - oldest)}


def cut(session: Session, name: str, after: int, upto: int, parts: int, most: int | None) -> list[Slice]:
    """Divides the batches after `after`, up to `upto`, into about `parts` slices; messages of one group stay in one slice. Changes nothing,
    and is repeatable until the batches are settled."""
    if upto <= after:
        return []
    stream = find(session, name)
    stream.check(None, after)
    stream.check(None, upto)
    batches = session.rows("list_batches", stream=name, after=after, upto=upto)
    if not batches or batches[-1][0] != upto:
        raise LeaseLost(f"the batch {upto} of the stream {name!r} is not in the ledger: it was settled, or revoked")
    width = -(-sum([messages for _, messages in batches]) // parts)
    if most is not None:
        width = min(width, most)
    return [piece for batch, messages in batches for piece in _cut_batch(session, name, batch, messages, width)]


def read_slice(session: Session, piece: Slice) -> Iterator[list[Row]]:
    """Yields the slice's messages in order of place, in lists; raises an error at the end if one is missing."""
    rows: list[Row] = []
    count = 0
    for row in session.stream("read_slice", stream=piece.stream, batch=piece.batch, first=piece.first, last=piece.last):
        rows.append(row)
        if len(rows) == _ROWS:
            count += len(rows)
            yield rows
            rows = []
    if count + len(rows) != piece.count:
        raise lost(session, piece, count + len(rows))
    if rows:
        yield rows


def lost(session: Session, piece: Slice, count: int) -> LeaseLost:
    """The error for a slice with missing messages; raises a more specific one if there is one."""
    find(session, piece.stream).check(None, piece.batch)
    return LeaseLost(
        f"batch {piece.batch} of the stream {piece.stream!r} has {count} messages at the places {piece.first} to {piece.last}, but should "
        f"have {piece.count}: it was settled, or some of it was quarantined while it was read. Start the query again"
    )


def lock(tx: Transaction, name: str) -> Stream:
    return _known(tx.session.row("lock_stream", name=name), name)


def _known(row: Row | None, name: str) -> Stream:
    if row is None:
        raise StreamNotFound(f"there is no stream {name!r}: it was never claimed in this database")
    return _stream(row)


def _stream(row: Row) -> Stream:
    given = dict(zip(_COLUMNS, row, strict=True))
    return Stream(**given | {"queues": msgspec.json.decode(given["queues"])})


def advance(tx: Transaction, stream: Stream, **changes: object) -> None:
    after = msgspec.structs.replace(stream, beat_at=tx.now, **changes)
    tx.session.write(
        "advance_stream",
        name=after.name,
        queues=_json(after.queues),
        epoch=after.epoch,
        next_batch=after.next_batch,
        acked_batch=after.acked_batch,
        floor=after.floor,
        beat_at=after.beat_at,
    )


def _lease_batch(tx: Transaction, stream: Stream, most: int, most_bytes: int) -> bool:
    """Records the next batch; False if there is nothing to take."""
    found = gather(tx, stream, most, most_bytes)
    if not found.receipts:
        return False
    name, number = stream.name, stream.next_batch
    tx.session.write("insert_batch", stream=name, batch=number, messages=len(found.receipts), bytes=found.bytes, leased_at=tx.now)
    rows = [(name, number, place, seq, token) for place, (seq, token) in enumerate(found.receipts, 1)]
    for piece in pieces(rows):
        tx.session.many("insert_streamed", ("stream", "batch", "place", "seq", "token"), piece)
    return True


def _is_a_batch_ready(tx: Transaction, stream: Stream, most: int) -> bool:
    """A batch leased ahead is fixed: a small one would stay small, although messages that arrive meanwhile could still join it."""
    left = most
    for queue in stream.queues:
        left -= tx.session.rows("count_ready_upto", queue=queue, most=left)[0][0]
        if left <= 0:
            return True
    return False


def _ack(tx: Transaction, stream: Stream, upto: int) -> None:
    if upto <= stream.acked_batch:
        return
    for queue in stream.queues:
        tx.policy(queue)  # only queues with a cached policy can be acked by one statement
    for piece in pieces(unsettled(tx, stream, upto)):
        settle(tx, [Settle(piece, Ack())], promotes_next=False)
    groups.promote_next(tx)
    settled = {"stream": stream.name, "after": stream.acked_batch, "upto": upto}
    tx.session.write("delete_streamed", **settled)
    tx.session.write("settle_batches", **settled, acked_at=tx.now)
    tx.session.write("prune_batches", stream=stream.name, upto=upto - KEPT_BATCHES)


def unsettled(tx: Transaction, stream: Stream, upto: int) -> list[Receipt]:
    """Sorted by seq, the order in which locks are taken."""
    rows = tx.session.rows("list_unsettled", stream=stream.name, after=stream.acked_batch, upto=upto)
    return sorted([(seq, token) for seq, token in rows])


def _refuse_at_most_once(tx: Transaction, queues: Sequence[str]) -> None:
    for queue in queues:
        if tx.policy(queue).delivery == "at_most_once":
            raise InvalidArgument(
                f"the queue {queue!r} delivers at most once, and a stream must be able to read a batch again: "
                "set its delivery to at_least_once, or receive from it without a stream"
            )


def pieces(rows: list[T]) -> Iterator[list[T]]:
    """Lists short enough that every database looks them up by key."""
    return (rows[start : start + _PIECE] for start in range(0, len(rows), _PIECE))


def _json(queues: Sequence[str]) -> str:
    return msgspec.json.encode(list(queues)).decode()


def _cut_batch(session: Session, name: str, batch: int, messages: int, width: int) -> Iterator[Slice]:
    group_at: dict[int, tuple[str, str]] = {}
    quarantined: set[int] = set()
    for place, queue, group, quarantined_at in session.rows("list_special_places", stream=name, batch=batch):
        if quarantined_at is not None:
            quarantined.add(place)
        if group is not None:
            group_at[place] = (queue, group)
        elif place - 1 in group_at:  # quarantined and gone: the messages around it may be of one group
            group_at[place] = group_at[place - 1]
    first = 1
    while first <= messages:
        last = min(first + width - 1, messages)
        while last < messages and last in group_at and group_at[last] == group_at.get(last + 1):
            last += 1
        count = last - first + 1 - sum([first <= place <= last for place in quarantined])
        if count:
            yield Slice(name, batch, first, last, count)
        first = last + 1
