"""Leasing: hands ready messages to consumers. Messages past their time are moved out of the queue on the way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from rowq.ids import new_tokens
from rowq.model import lifecycle
from rowq.model.draft import HAS_DEADLINE, MODE_MARKS
from rowq.model.member import Share, own_of, width
from rowq.model.queue import DeliveryMode, Policy
from rowq.store import expiry, groups
from rowq.store.call import Receive
from rowq.store.claim import claim, count, is_ended, route_out
from rowq.store.dialect import Row
from rowq.store.due_time import AHEAD_MS, FOR_EVER
from rowq.store.head_hint import BEGINNING, Taken
from rowq.store.notify.notifier import Place
from rowq.store.row import DeliveryRow, ReadyRow
from rowq.store.transaction import Look, Transaction

_SOME_MORE = 100
_DEAD_SEQ, _DEAD_DIED_AT = 0, 5
"""Columns of take_dead."""
_of_one_run = attrgetter("lease_ms", "consumer", "actor")
_COMMON = ("queue", "lease_until", "consumer", "leased_at", "attempts", "marks")


def lease(tx: Transaction, queue: str, calls: list[Receive], look: Look | None) -> None:
    """Serves calls of one queue, or of its dead letters, in the order of their arrival."""
    policy = tx.policy(queue)
    wanted = sum([call.max for call in calls])
    if policy.paused:
        wanted, look = 0, None
    if look is not None:
        started = _stopwatch(tx)
        expiry.take_up(tx, queue, wanted + _SOME_MORE, look)
        look.took_ms = _stopwatch(tx) - started
    tokens = _fill_bucket(tx, queue, policy)
    if tokens is not None:
        wanted = min(wanted, int(tokens))
    if calls[0].share is None:
        _lease_any(tx, queue, calls, policy, wanted)
    else:
        _lease_shared(tx, queue, calls, policy, wanted, calls[0].share)
    handed = sum([len(call.result or ()) for call in calls])
    if tokens is not None:
        _draw_from_bucket(tx, queue, policy, tokens, handed)
    if look is not None:
        _look_ahead(tx, calls[0], look, is_short=handed < wanted)


def _lease_any(tx: Transaction, queue: str, calls: list[Receive], policy: Policy, wanted: int, share: Share | None = None) -> None:
    if tx.session.does_at_once and not calls[0].from_dead:
        claim(tx, queue, calls, policy, wanted, share)
    else:
        _lease_in_steps(tx, queue, calls, policy, wanted, share)


def _lease_shared(tx: Transaction, queue: str, calls: list[Receive], policy: Policy, wanted: int, share: Share) -> None:
    """Serves each call from its share first. A call that finds nothing there takes other messages, the oldest first."""
    _lease_any(tx, queue, calls, policy, wanted, share)
    wanted -= sum([len(call.result or ()) for call in calls])
    empty = [call for call in calls if not call.result]
    if empty:
        _lease_any(tx, queue, empty, policy, min(wanted, sum([call.max for call in empty])))


def _lease_in_steps(tx: Transaction, queue: str, calls: list[Receive], policy: Policy, wanted: int, share: Share | None) -> None:
    mode = calls[0].delivery or policy.delivery
    rows = _dead_rows(tx, queue, policy, wanted) if calls[0].from_dead else _ready_rows(tx, queue, policy, mode, wanted, share)
    for _, alike in groupby(calls, _of_one_run):
        _hand_out(tx, list(alike), policy, rows)
    tx.flush()
    for actor, seqs in tx.delivered.items():
        tx.session.write("audit_delivered", seqs=seqs, actor=actor)
    tx.delivered.clear()
    groups.promote_next(tx)


def _ready_rows(tx: Transaction, queue: str, policy: Policy, mode: DeliveryMode, wanted: int, share: Share | None) -> Iterator[Row]:
    """Yields ready rows that may be delivered. Those past their time are moved out, and later rows take their place."""
    while wanted > 0:
        rows = _take(tx, queue, wanted) if share is None else take_own(tx, queue, share, wanted)
        ended = [row[ReadyRow.SEQ] for row in rows if is_ended(row, tx.now, mode)]
        if ended:
            left_out = set(ended)
            rows = [row for row in rows if row[ReadyRow.SEQ] not in left_out]
        if ended or share or not tx.session.is_alone:
            tx.changes["delete_ready"].extend([(queue, row[ReadyRow.RANKING], row[ReadyRow.POSITION], row[ReadyRow.SEQ]) for row in rows])
        else:
            _delete_runs(tx, queue, rows)
        tx.changes["delete_moved"].extend([row[ReadyRow.SEQ] for row in rows if row[ReadyRow.POSITION] != row[ReadyRow.SEQ]])
        wanted -= len(rows)
        yield from rows
        if not ended:
            return
        route_out(tx, ended, policy, mode)


def _take(tx: Transaction, queue: str, limit: int) -> list[Row]:
    session = tx.session
    if session.is_alone:
        return session.rows("take_ready", queue=queue, limit=limit)

    def take(place: Place) -> Taken:
        rows = session.take_ready(queue, place, limit)
        return rows, None if not rows else rows[-1][ReadyRow.RANKING : ReadyRow.POSITION + 1]

    return tx.heads.take(queue, tx.lowest.get(queue), take)


def _delete_runs(tx: Transaction, queue: str, rows: list[Row]) -> None:
    """The taken rows are contiguous in the index within each priority: one statement per priority deletes them."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][ReadyRow.RANKING] != rows[start][ReadyRow.RANKING]:
            tx.changes["delete_ready_run"].append(
                (queue, *rows[start][ReadyRow.RANKING : ReadyRow.POSITION + 1], rows[end - 1][ReadyRow.POSITION])
            )
            start = end


def _dead_rows(tx: Transaction, queue: str, policy: Policy, wanted: int) -> Iterator[Row]:
    """Yields dead letters. Those past dlq_ttl are removed, and later ones take their place."""
    cutoff = tx.now - policy.dlq_ttl_ms if policy.dlq_ttl_ms else -1
    while wanted > 0:
        rows = tx.session.rows("take_dead", queue=queue, now=tx.now, limit=wanted)
        kept = [row for row in rows if row[_DEAD_DIED_AT] > cutoff]
        tx.changes["delete_dead"].extend([(queue, row[_DEAD_SEQ]) for row in kept])
        wanted -= len(kept)
        yield from kept
        if len(kept) == len(rows):
            return
        expiry.remove_dead(tx, queue, [row[_DEAD_SEQ] for row in rows if row[_DEAD_DIED_AT] <= cutoff])


def _hand_out(tx: Transaction, calls: list[Receive], policy: Policy, rows: Iterator[Row]) -> None:
    """Leases rows to calls that differ only in how many they want, as one run; their results are rows for `row.to_deliveries`: seq, queue,
    attempt, token, end of the lease, and the body."""
    call = calls[0]
    tx.act_for(call.actor)
    chosen = list(islice(rows, sum([each.max for each in calls])))
    lease_ms = call.lease_ms or policy.lease_ms
    handed = (_lease_dead if call.from_dead else _lease_ready)(tx, call, chosen, lease_ms)
    start = 0
    for each in calls:
        each.result = handed[start : start + each.max]
        start += each.max
    if not handed:
        return
    tx.wakes_at(call.topic, min([row[DeliveryRow.UNTIL] for row in handed]))
    if tx.tally is not None:
        count(tx.tally, call, chosen)
    if policy.audit and len(handed) == 1:
        seq, queue, attempt = handed[0][: DeliveryRow.TOKEN]
        tx.changes["insert_audit"].append((tx.now, queue, seq, "delivered", attempt, call.consumer or tx.actor, None))
    elif policy.audit and tx.session.writes_runs:
        actor = call.consumer or tx.actor
        tx.audit_runs("delivered", [(row[DeliveryRow.SEQ], row[DeliveryRow.QUEUE], row[DeliveryRow.ATTEMPT], actor) for row in handed])
    elif policy.audit:
        tx.delivered[tx.actor].extend([row[DeliveryRow.SEQ] for row in handed])


def _lease_ready(tx: Transaction, call: Receive, rows: list[Row], lease_ms: int) -> list[Row]:
    now, queue, consumer = tx.now, call.queue, call.consumer
    until = now + lease_ms
    mode_mark = MODE_MARKS[call.delivery] if call.delivery else 0
    tokens = new_tokens(len(rows))
    if len(rows) > 1 and _are_alike(rows):
        leases = dict(zip([row[ReadyRow.SEQ] for row in rows], tokens, strict=True))
        attempts = rows[0][ReadyRow.ATTEMPTS] + 1
        common = (queue, until, consumer, now, attempts, mode_mark)
        tx.session.insert_leased_alike(leases, dict(zip(_COMMON, common, strict=True)))
        return [(row[ReadyRow.SEQ], queue, attempts, token, until, *row[ReadyRow.BODY]) for row, token in zip(rows, tokens, strict=True)]
    handed = []
    for row, token in zip(rows, tokens, strict=True):
        seq, _, _, attempts, expires_at, error, marks = row[: ReadyRow.MARKS + 1]
        end = lifecycle.lease_until(now, lease_ms, row[ReadyRow.SENT_AT] + row[ReadyRow.DEADLINE_MS]) if marks & HAS_DEADLINE else until
        tx.changes["insert_leased"].append((seq, queue, end, token, consumer, now, attempts + 1, expires_at, error, marks | mode_mark))
        handed.append((seq, queue, attempts + 1, token, end, *row[ReadyRow.BODY]))
    return handed


def _are_alike(rows: list[Row]) -> bool:
    """The usual case: the same number of attempts, and no expiry, error or marks."""
    first = rows[0][ReadyRow.ATTEMPTS : ReadyRow.MARKS + 1]
    return first[1:] == (None, None, 0) and [row[ReadyRow.ATTEMPTS : ReadyRow.MARKS + 1] for row in rows].count(first) == len(rows)


def _lease_dead(tx: Transaction, call: Receive, rows: list[Row], lease_ms: int) -> list[Row]:
    until, handed = tx.now + lease_ms, []
    for row, token in zip(rows, new_tokens(len(rows)), strict=True):
        seq, attempts, redeliveries, reason, error, died_at, marks, *body = row
        tx.changes["insert_leased_dead"].append(
            (seq, call.queue, until, token, call.consumer, tx.now, attempts, error, marks, reason, died_at, redeliveries + 1)
        )
        handed.append((seq, call.queue, redeliveries + 1, token, until, *body))
    return handed


def _fill_bucket(tx: Transaction, queue: str, policy: Policy) -> float | None:
    """The tokens in the bucket of a queue with a throughput_limit, which holds one second's worth; None without a limit."""
    limit = policy.throughput_limit
    if not limit:
        return None
    row = tx.session.row("read_bucket", queue=queue)
    tokens, filled_at = row or (float(limit), tx.now)
    return float(min(limit, tokens + max(0, tx.now - filled_at) * limit / 1000))


def _draw_from_bucket(tx: Transaction, queue: str, policy: Policy, tokens: float, handed: int) -> None:
    left = tokens - handed
    tx.session.write("write_bucket", queue=queue, tokens=left, filled_at=tx.now)
    if left < 1:
        tx.wakes_at(queue, tx.now + 1 + int((1 - left) * 1000 / policy.throughput_limit))


def _look_ahead(tx: Transaction, call: Receive, look: Look, *, is_short: bool) -> None:
    """Finds when the next message falls due, for a receive that may wait. An expensive look is skipped while there are enough messages."""
    tx.looked[call.topic] = look
    if not is_short and not look.is_cheap:
        return
    started = _stopwatch(tx)
    ahead = tx.now + AHEAD_MS if not tx.session.is_alone else FOR_EVER
    query = "next_dead_times" if call.from_dead else "next_times"
    times = tx.session.rows(query, queue=call.queue, now=tx.now, ahead=ahead)[0]
    look.next = min([time for time in times if time is not None], default=None)
    look.took_ms += _stopwatch(tx) - started


def _stopwatch(tx: Transaction) -> int:
    """Stops while the event loop is busy elsewhere: only slowness of the database may make looks rarer."""
    return tx.clock() - tx.session.elsewhere_ms()


_MOST_KEYS = 500
"""Keys per statement. From 1,000 on, MariaDB turns the list into a table and may scan the whole queue."""


def take_own(tx: Transaction, queue: str, share: Share, limit: int) -> list[Row]:
    """Rows of `take_ready` that belong to the share, in order; none if the head of the queue holds only other messages."""

    def take(place: Place) -> Taken:
        head = tx.session.rows("look_ready", queue=queue, ranking=place[0], position=place[1], limit=width(share, limit))
        return _lock(tx, queue, own_of(share, head), limit), head[0][:2] if head else None

    if tx.session.is_alone:
        return take(BEGINNING)[0]
    return tx.heads.take(queue, tx.lowest.get(queue), take, is_choosy=True)


def _lock(tx: Transaction, queue: str, places: list[tuple[int, int, int]], limit: int) -> list[Row]:
    """Locks up to `limit` rows, skipping those that another transaction is taking."""
    rows: list[Row] = []
    for ranking, ranked in groupby(places, itemgetter(0)):
        positions = [place[1] for place in ranked]
        while positions and len(rows) < limit:
            piece, positions = positions[:_MOST_KEYS], positions[_MOST_KEYS:]
            rows += tx.session.rows("take_ready_at", queue=queue, ranking=ranking, positions=piece, limit=limit - len(rows))
    return rows
