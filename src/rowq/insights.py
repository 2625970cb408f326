"""The reading side: what is where, and what happened. It runs beside the writers and never holds them up."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rowq.errors import InvalidArgument, MessageNotFound, QueueNotFound
from rowq.ids import Receipt, origin_of
from rowq.model.access import ApiKey
from rowq.model.draft import to_kv_key
from rowq.model.member import Member
from rowq.model.message import Event, KvEntry, Message, State, Stats
from rowq.model.queue import Policy, Settings, check_name, resolve, split_name
from rowq.model.stream import Stream, is_held_by_stream
from rowq.model.text import check_text
from rowq.store.access import read_keys
from rowq.store.dialect import Dialect, Row, Session
from rowq.store.finding import is_named, not_found, seq_of
from rowq.store.ledger import list_streams
from rowq.store.policies import read_settings
from rowq.store.registry import members
from rowq.store.rows import read_cursor, to_event, to_kv_entry, to_message
from rowq.store.times import FOR_EVER

MAX_PAGE = 1_000
_BEGINNING: dict[State, tuple[Any, int]] = {State.BLOCKED: ("", -1)}
_FIRST = (-(1 << 62), -1)


class Lease(msgspec.Struct, frozen=True):
    """Who has a message now: what somebody who names no receipt goes by."""

    receipt: Receipt
    queue: str
    is_dead: bool
    """It is a dead letter, received from the name that means those of its queue."""
    until: int
    consumer: str | None


class Ends(msgspec.Struct, frozen=True):
    """How messages of a queue ended that are still there to be seen, beside what `Stats` tells."""

    expired: int
    failed: int
    dead_for_good: int
    """Dead letters that are not received again."""
    dead_leased: int


class Insights:
    def __init__(self, dialect: Dialect, defaults: Settings) -> None:
        self._dialect = dialect
        self._defaults = defaults

    def get(self, id: str) -> Message:
        with self._dialect.reading() as session:
            seq = seq_of(session, id)
            for state in State:
                for row in session.rows(f"get_{state}", seq=seq):
                    return _checked(to_message(row, state), row, id)
            for row in session.rows("get_ready_moved", seq=seq):
                return _checked(to_message(row, State.READY), row, id)
        raise not_found(id)

    def browse(
        self,
        queue: str,
        *,
        state: str = "ready",
        key: str | None,
        group: str | None,
        text: str | None,
        sent_after: int | None,
        sent_before: int | None,
        after: str | None,
        limit: int,
    ) -> list[Message]:
        name, is_dead = split_name(queue)
        place = State.DEAD if is_dead else to_state(state)
        check_limit(limit)
        for what, value in {"key": key, "group": group, "text": text, "after": after}.items():
            if value is not None:
                check_text(value, what)
        sent = {"sent_after": check_moment(sent_after, "sent_after"), "sent_before": check_moment(sent_before, "sent_before")}
        a, b = _BEGINNING.get(place, _FIRST) if after is None else read_cursor(place, after)
        values = {"queue": name, "message_key": key, "group_key": group, "text": text, "a": a, "b": b, "limit": limit, **sent}
        with self._dialect.reading() as session:
            return [to_message(row, place) for row in session.rows(f"browse_{place}", **values)]

    def newest_dead(self, queue: str, *, limit: int, offset: int) -> list[Message]:
        """Dead letters as they came, the last one first, counted off: for readers that know no cursor."""
        values = {"queue": split_name(queue)[0], "limit": check_limit(limit), "offset": offset}
        with self._dialect.reading() as session:
            return [to_message(row, State.DEAD) for row in session.rows("browse_newest_dead", **values)]

    def walk(self, queue: str | None, states: Sequence[str] | None) -> Iterator[Message]:
        """Every message as of one moment, in constant memory."""
        places = list(State) if states is None else [to_state(state) for state in states]
        everything = {"message_key": None, "group_key": None, "text": None, "sent_after": None, "sent_before": None, "limit": FOR_EVER}
        with self._dialect.reading() as session:
            names = [row[0] for row in session.rows("read_all_settings")] if queue is None else [check_name(queue)]
            for name in names:
                for place in places:
                    a, b = _BEGINNING.get(place, _FIRST)
                    for row in session.stream(f"browse_{place}", queue=name, a=a, b=b, **everything):
                        yield to_message(row, place)

    def stats(self, queue: str) -> Stats:
        name, _ = split_name(queue)
        with self._dialect.reading() as session:
            row = session.row("read_settings", queues=[name])
            return _count(session, name, self._is_paused(row))

    def ends(self, queue: str) -> Ends:
        with self._dialect.reading() as session:
            return Ends(*session.rows("count_ends", queue=check_name(queue))[0])

    def queues(self) -> list[Stats]:
        with self._dialect.reading() as session:
            return [_count(session, row[0], self._is_paused(row)) for row in session.rows("read_all_settings")]

    def settings(self, queue: str) -> Settings:
        with self._dialect.reading() as session:
            row = session.row("read_settings", queues=[check_name(queue)])
        if row is None:
            raise QueueNotFound(f"there is no queue {queue!r}: nothing was ever sent to it or set on it")
        return read_settings(row[1])

    def settings_version(self) -> int:
        """A number that changes with the settings of any queue, and when one is deleted."""
        with self._dialect.reading() as session:
            return int(session.rows("read_settings_version")[0][0])

    def policy(self, queue: str) -> Policy:
        """What holds for a queue, whether or not anybody has used it: its settings over the defaults."""
        with self._dialect.reading() as session:
            row = session.row("read_settings", queues=[check_name(queue)])
        return resolve(read_settings(row[1]) if row else Settings(), self._defaults)

    def actions(self, queue: str | None, limit: int) -> list[Event]:
        """What operators did to queues, the newest first."""
        name = None if queue is None else check_name(queue)
        with self._dialect.reading() as session:
            return [to_event(row, None) for row in session.rows("read_actions", queue=name, limit=check_limit(limit))]

    def audit(self, id: str) -> list[Event]:
        """Empty when nothing is recorded: the audit is over, or was switched off."""
        with self._dialect.reading() as session:
            seq = seq_of(session, id)
            rows = session.rows("read_audit", seq=seq)
            is_own = session.row("find_own_id", id=id) is not None
        origin = origin_of(id)
        if not is_own and origin and any(row[1] == "enqueued" and row[0] != origin.sent_at for row in rows):
            raise not_found(id)  # the id of another database
        return [to_event(row, id) for row in rows]

    def list_seqs(self, queue: str, state: State) -> array[int]:
        """Those in a state at this moment, eight bytes each."""
        with self._dialect.reading() as session:
            return array("q", (row[0] for row in session.stream(f"list_{state}", queue=queue)))

    def leases(self, seqs: list[int]) -> dict[int, int]:
        """The tokens of those that are leased now."""
        with self._dialect.reading() as session:
            return dict(session.rows("find_leases", seqs=seqs))

    def leased(self, seqs: list[int]) -> dict[int, Message]:
        """Those of the messages that somebody has now, by seq."""
        with self._dialect.reading() as session:
            return {row[0]: to_message(row, State.LEASED) for row in session.rows("get_leases", seqs=seqs)}

    def lease(self, id: str) -> Lease | None:
        """None when nobody has it, or a stream, which settles by batches."""
        with self._dialect.reading() as session:
            try:
                row = session.row("find_lease", seq=seq_of(session, id))
            except MessageNotFound:
                return None
        if row is None or is_held_by_stream(row[4]) or not is_named(id, row[7], row[0], row[6]):
            return None
        seq, token, queue, reason, until, consumer = row[:6]
        return Lease((seq, token), queue, reason is not None, until, consumer)

    def keys(self, prefix: Sequence[str | int] | str, limit: int = MAX_PAGE) -> list[KvEntry]:
        parts = to_kv_key(prefix) if prefix else []
        low = msgspec.json.encode(parts).decode().removesuffix("]")
        with self._dialect.reading() as session:
            rows = session.rows("read_kv", low=low, high=low + "^", limit=limit)
        return [entry for entry in map(to_kv_entry, rows) if entry.key[: len(parts)] == parts]

    def api_keys(self) -> list[ApiKey]:
        return [key for key, _ in self.known_keys()]

    def known_keys(self) -> list[tuple[ApiKey, bytes]]:
        """Each with the digest of its secret."""
        with self._dialect.reading() as session:
            return read_keys(session)

    def streams(self) -> list[Stream]:
        with self._dialect.reading() as session:
            return list_streams(session)

    def consumers(self, queue: str, now: int, dead_after_ms: int) -> list[Member]:
        with self._dialect.reading() as session:
            return members(session, queue, now, dead_after_ms)

    def _is_paused(self, row: Row | None) -> bool:
        settings = read_settings(row[1]) if row else Settings()
        return resolve(settings, self._defaults).paused


def check_limit(limit: object) -> int:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"limit must be between 1 and {MAX_PAGE}, not {limit!r}")
    return limit


def check_moment(moment: object, what: str) -> int | None:
    if moment is not None and (type(moment) is not int or not 0 <= moment < 1 << 62):
        raise InvalidArgument(f"{what} must be a time in whole milliseconds since 1970, UTC, not {moment!r}")
    return moment


def to_state(state: str) -> State:
    try:
        return State(state)
    except ValueError:
        raise InvalidArgument(f"{state!r} is no state; states are: {', '.join(State)}") from None


def _checked(message: Message, row: Row, id: str) -> Message:
    if not is_named(id, message.id, row[0], row[2]):
        raise not_found(id)
    return message


def _count(session: Session, queue: str, paused: bool) -> Stats:
    ready, scheduled, leased, blocked, dead, finished, oldest = session.rows("count_states", queue=queue)[0]
    return Stats(
        queue=queue,
        ready=ready,
        scheduled=scheduled,
        leased=leased,
        blocked=blocked,
        dead=dead,
        finished=finished,
        oldest_ready_at=oldest,
        paused=paused,
    )
