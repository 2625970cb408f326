"""The reading side: where messages are, and what happened to them. Reads never block writers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

import msgspec

from rowq.errors import MessageNotFound
from rowq.ids import Receipt, origin_of
from rowq.model.access import ApiKey
from rowq.model.draft import to_kv_key
from rowq.model.failure import Failures
from rowq.model.member import ConsumerLook, Member
from rowq.model.message import BrowseOptions, Event, KvEntry, Message, State, Stats
from rowq.model.page import MAX_PAGE, Page, check_limit, to_page, to_state
from rowq.model.queue import Origin, Policy, Settings, check_name, origins, resolve, split_name
from rowq.model.stream import Stream, is_held_by_stream
from rowq.store import read
from rowq.store.access import SignedIn, find_session, read_keys
from rowq.store.dialect import Dialect, Row, Session
from rowq.store.lookup import Reach, insist_on_queue, is_named, not_found, only, seq_of, seqs_of
from rowq.store.policy import read_settings
from rowq.store.read import Found, read_all, read_failures, read_page
from rowq.store.registry import everyone, members
from rowq.store.row import leads, to_event, to_kv_entry, to_message
from rowq.store.stream.ledger import list_streams

_GET = (*((f"get_{state}", state) for state in State), ("get_ready_moved", State.READY))


class Lease(msgspec.Struct, frozen=True):
    """The current lease of a message, for callers that have no receipt."""

    receipt: Receipt
    queue: str
    is_dead: bool
    """A dead letter, received from the queue's dead-letter name."""
    until: int
    consumer: str | None


class Ends(msgspec.Struct, frozen=True):
    """How the messages of a queue ended, as far as they are still kept; complements `Stats`."""

    expired: int
    failed: int
    dead_for_good: int
    """Dead letters that are not received again."""
    dead_leased: int


class Insights:
    def __init__(self, dialect: Dialect, defaults: Settings) -> None:
        self._dialect = dialect
        self._defaults = defaults

    @property
    def defaults(self) -> Settings:
        """What holds where a queue has no setting."""
        return self._defaults

    def get(self, id: str, queue: str | None = None) -> Message:
        return self.find(id, only(queue))

    def find(self, id: str, reach: Reach) -> Message:
        """The message with that id in the queues within reach."""
        with self._dialect.reading() as session:
            found = _read_message(session, seq_of(session, id, reach, with_gone=False), id, reach)
        if found is None:
            raise not_found(id)
        return found

    def find_each(self, id: str, reach: Reach) -> list[Message]:
        """The messages with that id, in all queues within reach."""
        with self._dialect.reading() as session:
            found = [_read_message(session, seq, id, reach) for seq in seqs_of(session, id, reach)]
        return [message for message in found if message is not None]

    def browse(self, queue: str, **options: Unpack[BrowseOptions]) -> list[Message]:
        """A page in full, even if that takes several reads."""
        page = to_page(queue, **options)
        found, after = self._read_page(page)
        while after is not None and (missing := page.limit - len(found)):
            more, after = self._read_page(msgspec.structs.replace(page, after=after, limit=missing))
            found += more
        return found

    def browse_once(self, queue: str, **options: Unpack[BrowseOptions]) -> Found:
        """A page as far as one read finds it, and where the next one begins."""
        return self._read_page(to_page(queue, **options))

    def newest_dead(self, queue: str, *, limit: int, offset: int) -> list[Message]:
        """Dead letters, newest first, by offset: for readers without a cursor."""
        values = {"queue": split_name(queue)[0], "limit": check_limit(limit), "offset": offset}
        with self._dialect.reading() as session:
            return [to_message(row, State.DEAD) for row in session.rows("browse_newest_dead", **values)]

    def failures(self, queue: str, *, limit: int = 100) -> Failures:
        """Why the dead letters of a queue died, the most frequent cause first; leased ones are not counted."""
        name, most = split_name(queue)[0], check_limit(limit)
        with self._dialect.reading() as session:
            insist_on_queue(session, name)
            return read_failures(session, name, most)

    def walk(self, queue: str | None, states: Sequence[str] | None) -> Iterator[Message]:
        """Every message as of one moment, in constant memory."""
        places = list(State) if states is None else [to_state(state) for state in states]
        with self._dialect.reading() as session:
            if queue is not None:
                insist_on_queue(session, split_name(queue)[0])
            names = [row[0] for row in session.rows("read_all_settings")] if queue is None else [queue]
            for name in names:
                for place in places:
                    yield from read_all(session, name, place)

    def stats(self, queue: str) -> Stats:
        name, _ = split_name(queue)
        with self._dialect.reading() as session:
            row = session.row("read_settings", queues=[name])
            if row is None:
                insist_on_queue(session, name)
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
                insist_on_queue(session, queue)
        return Settings() if row is None else read_settings(row[1])

    def insist(self, queue: str) -> None:
        """Raises QueueNotFound."""
        with self._dialect.reading() as session:
            insist_on_queue(session, queue)

    def all_settings(self) -> dict[str, Settings]:
        """What is set on each queue, in the order of their names."""
        with self._dialect.reading() as session:
            return {row[0]: read_settings(row[1]) for row in session.rows("read_all_settings")}

    def settings_version(self) -> int:
        """A number that changes with the settings of any queue, and when one is deleted."""
        with self._dialect.reading() as session:
            return int(session.rows("read_settings_version")[0][0])

    def policy(self, queue: str) -> Policy:
        """What holds for a queue, used or not: its settings over the defaults."""
        with self._dialect.reading() as session:
            row = session.row("read_settings", queues=[check_name(queue)])
        return resolve(read_settings(row[1]) if row else Settings(), self._defaults)

    def origins(self, queue: str) -> dict[str, Origin]:
        """Where the value of each setting of a queue comes from."""
        return origins(self.settings(queue), self._defaults)

    def actions(self, queue: str | None, limit: int) -> list[Event]:
        """What operators did to queues, newest first."""
        name = None if queue is None else check_name(queue)
        with self._dialect.reading() as session:
            found = [to_event(row, None) for row in session.rows("read_actions", queue=name, limit=check_limit(limit))]
            if not found and name is not None:
                insist_on_queue(session, split_name(name)[0])
            return found

    def audit_end(self) -> int:
        """The newest audit line visible now. An open transaction may have drawn a lower number: a reader that follows the audit must go by
        an end that it read a moment ago."""
        with self._dialect.reading() as session:
            return read.audit_end(session)

    def audit_start(self, since: int) -> int:
        """The line after which to read for everything since then, limited to a fixed number of lines."""
        with self._dialect.reading() as session:
            return read.audit_start(session, since)

    def tally_audit(self, after: int, upto: int) -> list[read.Happened]:
        """What happened after one line, up to and including another, counted by queue, event, actor and ten seconds."""
        with self._dialect.reading() as session:
            return read.tally_audit(session, after, upto)

    def audit(self, id: str, queue: str | None = None) -> list[Event]:
        """Empty when nothing is recorded: the audit has been removed, or was switched off."""
        return self.find_events(id, only(queue))

    def find_events(self, id: str, reach: Reach) -> list[Event]:
        """What is recorded of the message with that id in the queues within reach."""
        with self._dialect.reading() as session:
            seq = seq_of(session, id, reach)
            events = [to_event(row, id) for row in session.rows("read_audit", seq=seq, leads=leads([seq]))]
            is_own = any(row[0] == seq for row in session.rows("find_own_id", id=id))
        origin = origin_of(id)
        if not is_own and origin and any(event.event == "enqueued" and event.at != origin.sent_at for event in events):
            raise not_found(id)  # an id of another database
        return [event for event in events if reach(event.queue)]

    def list_seqs(self, queue: str, state: State) -> array[int]:
        """The seqs in a state at this moment, eight bytes each."""
        with self._dialect.reading() as session:
            return array("q", (row[0] for row in session.stream(f"list_{state}", queue=queue)))

    def last_seq(self, queue: str) -> int:
        """The newest message of a queue, in any state; 0 if it has none."""
        with self._dialect.reading() as session:
            return max(_all_seqs(session, queue), default=0)

    def has_upto(self, queue: str, last: int) -> bool:
        """Whether the queue has a message that is not newer. One snapshot: between two reads it might move to another state."""
        with self._dialect.reading() as session:
            return any(seq <= last for seq in _all_seqs(session, queue))

    def leases(self, seqs: list[int]) -> dict[int, int]:
        """The tokens of those that are leased now."""
        with self._dialect.reading() as session:
            return dict(session.rows("find_leases", seqs=seqs))

    def leased(self, seqs: list[int]) -> dict[int, Message]:
        """The messages that are leased now, by seq."""
        with self._dialect.reading() as session:
            return {row[0]: to_message(row, State.LEASED) for row in session.rows("get_leases", seqs=seqs)}

    def leases_of(self, id: str, reach: Reach) -> list[Lease]:
        """The current leases of messages with that id in the queues within reach; not those of streams, which settle by batches."""
        with self._dialect.reading() as session:
            try:
                rows = [row for seq in seqs_of(session, id, reach) for row in session.rows("find_lease", seq=seq)]
            except MessageNotFound:
                return []
        return [
            Lease((seq, token), queue, reason is not None, until, consumer)
            for seq, token, queue, reason, until, consumer, sent_at, own_id in rows
            if reach(queue) and not is_held_by_stream(until) and is_named(id, own_id, seq, sent_at)
        ]

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

    def session(self, digest: bytes) -> SignedIn | None:
        """The session that signed in to the pages with the cookie of that digest."""
        with self._dialect.reading() as session:
            return find_session(session, digest)

    def streams(self) -> list[Stream]:
        with self._dialect.reading() as session:
            return list_streams(session)

    def consumers(self, queue: str, now: int, dead_after_ms: int) -> list[Member]:
        with self._dialect.reading() as session:
            return members(session, queue, now, dead_after_ms)

    def all_consumers(self, now: int, dead_after_ms: int, sees: Callable[[str], bool] | None = None) -> list[ConsumerLook]:
        with self._dialect.reading() as session:
            return everyone(session, now, dead_after_ms, sees)

    def _read_page(self, page: Page) -> Found:
        with self._dialect.reading() as session:
            found = read_page(session, page)
            if not found.messages:
                insist_on_queue(session, page.queue)
            return found

    def _is_paused(self, row: Row | None) -> bool:
        settings = read_settings(row[1]) if row else Settings()
        return resolve(settings, self._defaults).paused


def _read_message(session: Session, seq: int, id: str, reach: Reach) -> Message | None:
    for query, state in _GET:
        for row in session.rows(query, seq=seq):
            message = to_message(row, state)
            if reach(message.queue) and is_named(id, message.id, row[0], row[2]):
                return message
    return None


def _all_seqs(session: Session, queue: str) -> Iterator[int]:
    for state in State:
        yield from (row[0] for row in session.stream(f"list_{state}", queue=queue))


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
