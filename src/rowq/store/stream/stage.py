"""Staging: messages are written first and published later, all of a writer's version at once and exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from rowq.errors import RowqError, StagingLost
from rowq.model.draft import PREPARED_COLUMNS, Prepared
from rowq.store import send
from rowq.store.call import sends_of
from rowq.store.transaction import Transaction

KEPT_MS = 86_400_000
"""How long a stage may wait to be published: its writer has given up by then."""
COLUMNS = ("stage", "place", "staged_at", *PREPARED_COLUMNS)
_PIECE = 1_000
"""How many seqs are drawn at once."""
_SENT = 500
"""How many messages are held in memory and sent together."""

Stage = tuple[str, int]
"""Its name, and how many messages were staged under it."""


class Abandoned(Exception):
    """A publication that failed after parts of it were written: all of it is rolled back. `error` is the reason."""

    def __init__(self, error: RowqError) -> None:
        super().__init__(str(error))
        self.error = error


def put_down(tx: Transaction, stage: str, first: int, messages: Sequence[Prepared]) -> None:
    rows = [(stage, place, tx.now, *astuple(message)) for place, message in enumerate(messages, first)]
    tx.session.many("insert_staged", COLUMNS, rows)


def discard(tx: Transaction, stages: Sequence[str]) -> None:
    for stage in stages:
        tx.session.write("delete_staged", stage=stage)


def publish(tx: Transaction, writer: str, version: int, stages: Sequence[Stage], kept: int | None = None) -> bool:
    """False if this version of the writer was published before: the messages staged for it again are then discarded."""
    total = sum([count for _, count in stages])
    is_new = tx.session.run("insert_publication", writer=writer, version=version, messages=total, published_at=tx.now)
    if is_new:
        _publish_all(tx, stages)
        if kept is not None and version >= kept:
            tx.session.write("forget_publications", writer=writer, upto=version - kept)
    discard(tx, sorted([stage for stage, _ in stages]))
    return bool(is_new)


def publish_stages(tx: Transaction, stages: Sequence[Stage]) -> None:
    """Publishes without a version: only the stages themselves prevent a second publication."""
    _publish_all(tx, stages)
    discard(tx, sorted([stage for stage, _ in stages]))


def retire(tx: Transaction, limit: int) -> int:
    """Removes messages that were not published within a day."""
    rows = tx.session.rows("list_old_staged", cutoff=tx.now - KEPT_MS, limit=limit)
    if rows:
        tx.session.many("delete_staged_row", ("stage", "place"), rows)
    return len(rows)


def _publish_all(tx: Transaction, stages: Sequence[Stage]) -> None:
    try:
        _check_whole(tx, dict(stages))
        for stage, _ in stages:
            _publish_stage(tx, stage)
    except RowqError as error:
        raise Abandoned(error) from error


def _check_whole(tx: Transaction, counts: dict[str, int]) -> None:
    for stage, told in counts.items():
        found = tx.session.rows("count_staged", stage=stage)[0][0]
        if found != told:
            raise StagingLost(
                f"{told} messages were staged under {stage!r}, but {found} are there: the database was restarted after a crash, or they "
                "waited for more than a day; nothing was published: write them again"
            )


def _publish_stage(tx: Transaction, stage: str) -> None:
    rows = tx.session.rows("survey_stage", stage=stage)
    one_by_one = [queue for queue, *_ in rows if not _is_open(tx, queue)]
    has_others = bool(one_by_one)
    for queue, plain, count, highest in sorted(rows):
        if queue not in one_by_one:
            if plain:
                _publish_plain(tx, stage, queue, int(plain), highest)
            has_others |= plain < count
    if has_others:
        _send_others(tx, stage, one_by_one)


def _is_open(tx: Transaction, queue: str) -> bool:
    """Whether a queue accepts messages in bulk: it has no maximum depth and no TTL."""
    policy = tx.policy(queue)
    return not policy.max_depth and not policy.ttl_ms


def _publish_plain(tx: Transaction, stage: str, queue: str, count: int, highest: int) -> None:
    policy = tx.policy(queue)
    tx.policies.create(tx.session, queue, tx.now)
    if tx.session.does_at_once:
        values = {"stage": stage, "queue": queue, "now": tx.now, "actor": tx.actor, "is_audited": policy.audit}
        _, first = tx.session.rows("publish_at_once", **values)[0]
    else:
        first = _publish_in_pieces(tx, stage, queue, policy.audit)
    if tx.tally is not None:
        tx.tally.counts[queue, "enqueued"] += count
    tx.ready_at(queue, -highest, first, count)


def _publish_in_pieces(tx: Transaction, stage: str, queue: str, is_audited: bool) -> int:
    """Returns the first of their seqs."""
    session, after, lowest = tx.session, -1, 0
    while places := session.rows("list_staged_plain", stage=stage, queue=queue, after=after, limit=_PIECE):
        upto, count = places[-1][0], len(places)
        first = session.draw_seqs(count)
        lowest = lowest or first
        session.write("publish_messages", before=first - 1, now=tx.now, stage=stage, after=after, upto=upto, queue=queue)
        tx.changes["make_ready"].append((first, first + count - 1))
        if is_audited:
            tx.audit_enqueued(queue, first, first + count - 1)
        tx.flush()
        after = upto
    return lowest


def _send_others(tx: Transaction, stage: str, queues: list[str]) -> None:
    """Sends messages the usual way: with keys, groups and the queue's limits."""
    after = -1
    while rows := tx.session.rows("list_staged", stage=stage, after=after, queues=queues, limit=_SENT):
        after = rows[-1][0]
        for call in sends_of((Prepared(*map(_plain_bytes, fields)) for _, *fields in rows), tx.actor):
            send.send(tx, [call])
            if call.error is not None:
                raise call.error


def _plain_bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
