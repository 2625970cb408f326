"""Slices: divides batches into ranges that are read separately, and reads one of them. Both change nothing and are repeatable until the
batch is settled."""

from __future__ import annotations

from collections.abc import Iterator

from rowq.errors import LeaseLost
from rowq.model.stream import Slice
from rowq.store.dialect import Row, Session
from rowq.store.stream.ledger import find

_PIECE = 500


def cut(session: Session, name: str, after: int, upto: int, parts: int, most: int | None) -> list[Slice]:
    """Divides the batches after `after`, up to `upto`, into about `parts` slices; messages of one group stay in one slice."""
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


def read(session: Session, piece: Slice) -> Iterator[list[Row]]:
    """Yields the slice's messages in order of place, in lists; raises an error at the end if one is missing."""
    rows: list[Row] = []
    count = 0
    for row in session.stream("read_slice", stream=piece.stream, batch=piece.batch, first=piece.first, last=piece.last):
        rows.append(row)
        if len(rows) == _PIECE:
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
