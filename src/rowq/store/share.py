"""Sharing: who receives a share of a queue takes its own messages first, from the head of the queue.

The head is looked at without locks, so consumers of different shares do not stand in each other's way; then those of the share are
locked by their keys. How much of the head is looked at has a bound, and so a receive costs the same whatever stands behind it.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from rowq.model.member import Share, own_of, width
from rowq.store.dialect import Row
from rowq.store.head_hint import BEGINNING, Taken
from rowq.store.notify.notifier import Place
from rowq.store.transaction import Transaction

_MOST_KEYS = 500
"""In one statement. From 1,000 on MariaDB makes a table of them, and may walk through the whole queue beside it."""


def take_own(tx: Transaction, queue: str, share: Share, limit: int) -> list[Row]:
    """Rows of `take_ready` that are of the share, in order; none where the head of the queue is all others'."""

    def take(place: Place) -> Taken:
        head = tx.session.rows("look_ready", queue=queue, ranking=place[0], position=place[1], limit=width(share, limit))
        return _lock(tx, queue, own_of(share, head), limit), head[0][:2] if head else None

    if tx.session.is_alone:
        return take(BEGINNING)[0]
    return tx.heads.take(queue, tx.lowest.get(queue), take, is_choosy=True)


def _lock(tx: Transaction, queue: str, places: list[tuple[int, int, int]], limit: int) -> list[Row]:
    """As many as are wanted, without those that somebody else is taking."""
    rows: list[Row] = []
    for ranking, ranked in groupby(places, itemgetter(0)):
        positions = [place[1] for place in ranked]
        while positions and len(rows) < limit:
            piece, positions = positions[:_MOST_KEYS], positions[_MOST_KEYS:]
            rows += tx.session.rows("take_ready_at", queue=queue, ranking=ranking, positions=piece, limit=limit - len(rows))
    return rows
