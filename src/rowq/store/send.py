"""Sending: writes new bodies to rowq_messages, and one row to the state table in which each message starts."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import attrgetter

import msgspec

from rowq.errors import IdTaken, PayloadRejected, PayloadTooLarge, QueueFull, RowqError
from rowq.ids import message_id, message_ids, origin_of
from rowq.model import lifecycle
from rowq.model.draft import Prepared, check_moment, with_delay
from rowq.model.message import State
from rowq.model.payload import Format, decode
from rowq.model.queue import Policy
from rowq.store import groups
from rowq.store.call import Send
from rowq.store.dialect import Row
from rowq.store.locked_message import hold_waiting, lock_groups, lock_keys
from rowq.store.place import put_back, put_ready, put_scheduled, take_out
from rowq.store.policy import Known, check_payload
from rowq.store.request import Requests
from rowq.store.row import leads
from rowq.store.transaction import Transaction
from rowq.store.transition import expire

_fields = msgspec.structs.astuple
_of_one_run = attrgetter("queue", "actor", "is_plain")


def send(tx: Transaction, calls: list[Send]) -> None:
    """Writes every call that its queue admits; a call that is refused gets its error and writes nothing."""
    requests = Requests(tx, calls) if any(call.request for call in calls) else None
    admission = _Admission(tx)
    admitted = [call for call in calls if not (requests and requests.settles(call)) and admission.lets_in(call)]
    if admitted:
        _write(tx, admitted)
    if requests:
        requests.remember()


def _write(tx: Transaction, admitted: list[Send]) -> None:
    special = [call for call in admitted if not call.is_plain]
    waiting = _WaitingKeys(tx, special)
    heads = _Heads(tx, special)
    seq = tx.session.draw_seqs(sum([len(call.messages) for call in admitted]))
    for (queue, actor, is_plain), run in groupby(admitted, _of_one_run):
        tx.act_for(actor)
        policy = tx.policy(queue)
        if is_plain and policy.ttl_ms == 0:
            seq = _insert_run(tx, list(run), seq, policy)
            continue
        for call in run:
            call.result = [
                waiting.replaced(message) or _insert(tx, message, number, policy, waiting, heads)
                for number, message in enumerate(call.messages, seq)
            ]
            seq += len(call.messages)
    heads.leave_unused()
    tx.flush()


def _insert_run(tx: Transaction, calls: list[Send], first: int, policy: Policy) -> int:
    """The hot path: messages of one queue that are ready at once and have no options, of all calls together. Returns the next seq."""
    now, queue, changes = tx.now, calls[0].queue, tx.changes
    messages = calls[0].messages if len(calls) == 1 else [message for call in calls for message in call.messages]
    count = len(messages)
    changes["insert_plain_message"].extend(
        # A bytearray, which SQLite's driver takes directly; for bytes it looks for an adapter first, which doubles the cost.
        [(seq, now, queue, m.format, bytearray(m.payload), m.priority) for seq, m in enumerate(messages, first)]
    )
    _add_run(changes["make_ready"], first, first + count - 1)
    if tx.tally is not None:
        tx.tally.counts[queue, "enqueued"] += count
    if policy.audit:
        tx.audit_enqueued(queue, first, first + count - 1)
    tx.ready_at(queue, -max([message.priority for message in messages]), first, count)
    ids = message_ids(first, count, now)
    start = 0
    for call in calls:
        end = start + len(call.messages)
        call.result = ids[start:end]
        start = end
    return first + count


def _add_run(runs: list[Row], first: int, last: int) -> None:
    """Extends the last run if the seqs are consecutive, as those of one transaction are: one statement writes a run."""
    if runs and runs[-1][1] == first - 1:
        runs[-1] = (runs[-1][0], last)
    else:
        runs.append((first, last))


def _insert(tx: Transaction, message: Prepared, seq: int, policy: Policy, waiting: _WaitingKeys, heads: _Heads) -> str:
    now, queue = tx.now, message.queue
    message = with_delay(message, now)
    due = now + message.delay_ms
    expires_at = lifecycle.expires_at(now, due, message.ttl_ms, policy)
    tx.changes["insert_message"].append((seq, now, *_fields(message)))
    if message.group_key is not None and not heads.join(queue, message.group_key, seq):
        tx.changes["insert_blocked"].append((queue, message.group_key, seq, due, 0, expires_at, None))
    elif due > now:
        put_scheduled(tx, queue, due, seq, 0, expires_at, None)
    else:
        put_ready(tx, queue, message.priority, seq, seq, 0, expires_at, None)
    if expires_at is not None or message.deadline_ms is not None:
        deadline = None if message.deadline_ms is None else now + message.deadline_ms
        tx.changes["insert_expiring"].append((seq, queue, lifecycle.ends_at(expires_at, deadline)))
    if message.own_id is not None:
        tx.changes["insert_own_id"].append((message.own_id, seq, queue))
    if tx.tally is not None:
        tx.tally.counts[queue, "enqueued"] += 1
    if policy.audit:
        tx.changes["insert_audit"].append((now, queue, seq, "enqueued", None, tx.actor, None))
    id = message.own_id or message_id(seq, now)
    if message.message_key is not None:
        waiting.hold(message, seq, id)
    return id


class _Admission:
    """Checks calls one by one, taking into account those already admitted but not written yet."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._admitted: defaultdict[str, int] = defaultdict(int)
        self._own_ids: defaultdict[str, set[str]] = defaultdict(set)
        self._open: dict[str, int] = {}
        """Queues that admit every plain call up to this size: each was checked once in this transaction."""

    def lets_in(self, call: Send) -> bool:
        if call.is_plain and call.size <= self._open.get(call.queue, -1):
            return True
        tx = self._tx
        try:
            known = tx.policies.known(tx.session, call.queue)
            _check_messages(known, call, tx.now)
            if not call.is_plain:
                self._check_own_ids(call)
            if known.policy.max_depth:
                self._check_depth(known, call)
            tx.policies.create(tx.session, call.queue, tx.now)
        except RowqError as error:
            call.error = error
            return False
        if known.policy.schema is None and not known.policy.max_depth:
            self._open[call.queue] = known.policy.max_payload_bytes
        if not call.is_plain:
            self._own_ids[call.queue].update(message.own_id for message in call.messages if message.own_id is not None)
        return True

    def _check_own_ids(self, call: Send) -> None:
        own_ids = [message.own_id for message in call.messages if message.own_id is not None]
        if not own_ids:
            return
        taken = {row[0] for row in self._tx.session.rows("find_own_ids", ids=own_ids, queue=call.queue)}
        taken |= self._own_ids[call.queue].intersection(own_ids) | _given_out(self._tx, own_ids)
        for position, message in enumerate(call.messages):
            if message.own_id in taken:
                where = f"position {position}: " if len(call.messages) > 1 else ""
                raise IdTaken(f"{where}a message with the id {message.own_id!r} was sent already: send each id once")
            if message.own_id is not None:
                taken.add(message.own_id)

    def _check_depth(self, known: Known, call: Send) -> None:
        """Exact, but counts the queue only when needed: the bound grows with our own sends, and falls at the next count."""
        limit, wanted, queue = known.policy.max_depth, len(call.messages), call.queue
        news = self._tx.news()
        if known.depth_bound is None or known.counted_at != news or known.depth_bound + wanted > limit:
            known.depth_bound = self._tx.session.rows("count_depth", queue=queue, most=limit + 1)[0][0] + self._admitted[queue]
            known.counted_at = news
            wanted = _count_new(self._tx, call)
        if wanted and known.depth_bound + wanted > limit:
            holds = f"{known.depth_bound} of at most {limit}" if known.depth_bound <= limit else f"more than its {limit}"
            raise QueueFull(f"{queue!r} holds {holds} messages: wait until some are done, or raise max_depth")
        known.depth_bound += wanted
        self._admitted[queue] += wanted


def _check_messages(known: Known, call: Send, now: int) -> None:
    limit, schema = known.policy.max_payload_bytes, known.policy.schema
    if call.size <= limit and schema is None and call.is_plain:
        return
    for position, message in enumerate(call.messages):
        try:
            check_moment(message, now)
            if len(message.payload) > limit:
                raise PayloadTooLarge(
                    f"the payload takes {len(message.payload)} bytes, {call.queue!r} allows {limit}: "
                    "send a reference to it, or raise max_payload_bytes"
                )
            if schema is not None:
                check_payload(known, _json_value(message))
        except RowqError as error:
            raise (error if len(call.messages) == 1 else type(error)(f"position {position}: {error}")) from None


def _json_value(message: Prepared) -> object:
    if message.format == Format.BYTES:
        raise PayloadRejected("the payload is bytes, but the queue's schema requires JSON")
    return decode(message.format, message.payload)


def _given_out(tx: Transaction, ids: list[str]) -> set[str]:
    """The ids that rowq itself has made: such an id names that message alone, in whichever queue it is."""
    origins = {origin.seq: id for id in ids if (origin := origin_of(id)) is not None}
    rows = tx.session.rows("find_told_origins", seqs=sorted(origins), leads=leads(origins)) if origins else []
    return {origins[seq] for seq, sent_at in rows if message_id(seq, sent_at) == origins[seq]}


def _count_new(tx: Transaction, call: Send) -> int:
    """Without messages that only replace one that waits under their key: a full queue still accepts them."""
    keys = {message.message_key for message in call.messages if message.message_key is not None}
    unkeyed = sum(1 for message in call.messages if message.message_key is None)
    rows = tx.session.rows("lock_waiting_keys", queue=call.queue, keys=sorted(keys)) if keys else []
    return unkeyed + len(keys) - (len(hold_waiting(tx.session, sorted(seq for _, seq in rows))) if rows else 0)


class _WaitingKeys:
    """Which keyed messages of a batch replace a waiting one, in the database or earlier in the batch."""

    def __init__(self, tx: Transaction, calls: list[Send]) -> None:
        self._tx = tx
        self._holders: dict[tuple[str, str], tuple[int, str]] = {}
        asked: defaultdict[str, set[str]] = defaultdict(set)
        for call in calls:
            asked[call.queue].update(message.message_key for message in call.messages if message.message_key is not None)
        for queue, keys in sorted(asked.items()):  # every transaction takes locks in this order
            if keys:
                self._find_holders(queue, sorted(keys))

    def replaced(self, message: Prepared) -> str | None:
        """The id of the waiting message that gets this one's payload and headers; None if no message waits under its key."""
        if message.message_key is None or (holder := self._holders.get((message.queue, message.message_key))) is None:
            return None
        seq, id = holder
        self._tx.flush()  # the holder may be an earlier message of this batch
        self._tx.changes["replace_body"].append((message.format, message.payload, message.headers, seq))
        self._renew(message, seq)
        self._tx.audit(message.queue, seq, "replaced")
        return id

    def hold(self, message: Prepared, seq: int, id: str) -> None:
        key = message.message_key or ""
        self._holders[message.queue, key] = (seq, id)
        self._tx.changes["hold_key"].append((message.queue, key, seq))

    def _find_holders(self, queue: str, keys: list[str]) -> None:
        """A holder past its time is expired first: a message that replaced it would expire too."""
        tx = self._tx
        seqs = sorted(lock_keys(tx.session, queue, keys).values())
        for held in hold_waiting(tx.session, seqs) if seqs else []:
            if not expire(tx, held, tx.policy(queue)):
                self._holders[queue, held.message_key or ""] = (held.seq, held.id)
        groups.promote_next(tx)

    def _renew(self, message: Prepared, seq: int) -> None:
        """With refresh_ttl, a replacement lives as long as a new message would.

        With concurrent writers the state row is rewritten in any case: a claim that began before this commit must not find the row
        unchanged and hand out the old body."""
        tx, policy = self._tx, self._tx.policy(message.queue)
        if not policy.refresh_ttl and tx.session.is_alone:
            return
        for held in hold_waiting(tx.session, [seq]):
            due = tx.now if held.place is None or held.state is State.READY else held.place
            expires_at = lifecycle.expires_at(tx.now, due, held.ttl_ms, policy) if policy.refresh_ttl else held.expires_at
            take_out(tx, held)
            put_back(tx, held, expires_at)
            if policy.refresh_ttl and (ends_at := lifecycle.ends_at(expires_at, held.deadline)) is not None:
                tx.changes["insert_expiring"].append((seq, message.queue, ends_at))


class _Heads:
    """Which groups of a batch already have a head, in the database or earlier in the batch."""

    def __init__(self, tx: Transaction, calls: list[Send]) -> None:
        self._tx = tx
        self._taken: set[tuple[str, str]] = set()
        self._unused: set[tuple[str, str]] = set()
        asked: defaultdict[str, set[str]] = defaultdict(set)
        for call in calls:
            asked[call.queue].update(message.group_key for message in call.messages if message.group_key is not None)
        for queue, named in sorted(asked.items()):
            if named:
                led = lock_groups(tx.session, queue, sorted(named))
                self._taken.update((queue, group) for group in led)
                self._unused.update((queue, group) for group in named - led.keys())

    def join(self, queue: str, group: str, seq: int) -> bool:
        if (queue, group) in self._taken:
            return False
        self._taken.add((queue, group))
        self._unused.discard((queue, group))
        self._tx.changes["set_group_head"].append((queue, group, seq))
        return True

    def leave_unused(self) -> None:
        """Removes groups that were reserved for messages that then replaced others."""
        if not self._tx.session.is_alone:
            self._tx.changes["delete_group_head"].extend(sorted(self._unused))
