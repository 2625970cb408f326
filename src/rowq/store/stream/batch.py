"""Batching: collects the messages of a stream's next batch, from its queues in turn, and the head of a group with those behind it."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from rowq.ids import Receipt, new_tokens
from rowq.model.draft import MODE_MARKS
from rowq.model.stream import UNTIL_SETTLED, Stream, consumer_of
from rowq.store.call import Receive
from rowq.store.dialect import Row
from rowq.store.lease import lease
from rowq.store.row import DeliveryRow
from rowq.store.transaction import Look, Transaction

_FIRST_TURN = 100
_TURN = 1_000
_TURN_BYTES = 16 << 20
"""Memory for one turn, estimated from the messages so far."""
_MODE = MODE_MARKS["at_least_once"]
"""Set on each lease, whatever the queue's settings become: a batch that returns must not be lost."""


class Gathered(msgspec.Struct):
    """A batch so far, with its receipts in order of place."""

    most: int
    most_bytes: int
    receipts: list[Receipt] = []
    bytes: int = 0

    def add(self, seq: int, token: int, size: int) -> None:
        self.receipts.append((seq, token))
        self.bytes += size

    @property
    def room(self) -> int:
        return self.most - len(self.receipts) if self.bytes < self.most_bytes else 0

    @property
    def turn(self) -> int:
        """How many messages to request at once: no more than the batch may hold, and no more than fits easily into memory."""
        if not self.receipts:
            return min(_FIRST_TURN, self.room)
        average = max(1, self.bytes // len(self.receipts))
        return min(_TURN, self.room, max(1, min(_TURN_BYTES, self.most_bytes - self.bytes) // average))


class _Turn(msgspec.Struct):
    queue: str
    look: Look | None


def gather(tx: Transaction, stream: Stream, most: int, most_bytes: int) -> Gathered:
    """Leases up to `most` messages. `most_bytes` may be exceeded a little, because a message's size is known only after it is leased."""
    found = Gathered(most, most_bytes)
    first = stream.next_batch % len(stream.queues)
    turns = [_Turn(queue, Look(-1)) for queue in (*stream.queues[first:], *stream.queues[:first])]
    while turns and found.room:
        share = -(-found.room // len(turns))
        turns = [turn for turn in turns if _take_share(tx, turn, found, share, consumer_of(stream.name))]
    return found


def _take_share(tx: Transaction, turn: _Turn, found: Gathered, share: int, consumer: str) -> bool:
    """Takes a queue's share; False if the queue has no more messages."""
    enough = len(found.receipts) + share
    while (wanted := min(found.room, enough - len(found.receipts))) > 0:
        if not _take(tx, turn, found, wanted, consumer):
            return False
    return True


def _take(tx: Transaction, turn: _Turn, found: Gathered, share: int, consumer: str) -> bool:
    """One turn of a queue; False if it has no more messages."""
    call = Receive(*(turn.queue, min(found.turn, share), UNTIL_SETTLED - tx.now, consumer), from_dead=False, delivery="at_least_once")
    lease(tx, turn.queue, [call], turn.look)
    rows = call.result or []
    if turn.look is not None:
        turn.look = None if turn.look.is_complete else Look(-1)
    if early := [row[DeliveryRow.SEQ] for row in rows if row[DeliveryRow.UNTIL] != UNTIL_SETTLED]:
        tx.session.write("hold_until", lease_until=UNTIL_SETTLED, seqs=early)  # leases of a stream do not end at the deadline
    size = sum([len(row[DeliveryRow.PAYLOAD]) for row in rows])
    groups = sorted({row[DeliveryRow.GROUP] for row in rows if row[DeliveryRow.GROUP] is not None})
    behind = _take_followers(tx, turn.queue, groups, share - len(rows), found.most_bytes - found.bytes - size, consumer)
    for row in rows:
        found.add(row[DeliveryRow.SEQ], row[DeliveryRow.TOKEN], len(row[DeliveryRow.PAYLOAD]))
        for follower in behind.get(row[DeliveryRow.GROUP], ()):
            found.add(*follower)
    return len(rows) == call.max


def _take_followers(
    tx: Transaction, queue: str, groups: list[str], most: int, most_bytes: int, consumer: str
) -> dict[str, list[tuple[int, int, int]]]:
    """Leases the due messages behind the heads that we hold: (seq, token, size) in order, by group. A message locked by another transaction
    ends the line of its group. A queue with a throughput_limit gives heads only, which its bucket counts."""
    if not groups or most <= 0 or tx.policy(queue).throughput_limit:
        return {}
    lines = _list_followers(tx, queue, groups, most, most_bytes)
    seqs = sorted([seq for line in lines.values() for seq, _ in line])
    taken: dict[int, Row] = {}
    for start in range(0, len(seqs), _TURN):
        taken |= {row[0]: row for row in tx.session.rows("take_followers", seqs=seqs[start : start + _TURN])}
    found: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for group, line in lines.items():
        for (seq, size), token in zip(line, new_tokens(len(line)), strict=True):
            if (row := taken.get(seq)) is None or not _may_follow(row[2], row[4], tx.now):
                break
            _lease_follower(tx, queue, row, token, consumer)
            found[group].append((seq, token, size))
    tx.flush()
    return found


def _list_followers(tx: Transaction, queue: str, groups: list[str], most: int, most_bytes: int) -> dict[str, list[tuple[int, int]]]:
    lines: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    ended: set[str] = set()
    for group, seq, due, expires_at, size in tx.session.rows("list_followers", queue=queue, groups=groups, limit=most):
        if group in ended or size > most_bytes or not _may_follow(due, expires_at, tx.now):
            ended.add(group)
        else:
            lines[group].append((seq, size))
            most_bytes -= size
    return lines


def _may_follow(due: int, expires_at: int | None, now: int) -> bool:
    return due <= now and (expires_at is None or expires_at > now)


def _lease_follower(tx: Transaction, queue: str, row: Row, token: int, consumer: str) -> None:
    seq, group, _, attempts, expires_at, error, marks = row
    tx.changes["delete_blocked"].append((queue, group, seq))
    tx.changes["insert_leased"].append((seq, queue, UNTIL_SETTLED, token, consumer, tx.now, attempts + 1, expires_at, error, marks | _MODE))
    tx.audit_as(consumer, queue, seq, "delivered", attempts + 1)
