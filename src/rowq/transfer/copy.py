"""One run of a copy, from one URL to another: what is copied in which order, how it is compared, and what is removed at the end. And a
survey of what there is to copy, for a dry run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import NamedTuple

import msgspec

from rowq.clock import running
from rowq.connect import open_engine, refuse_server
from rowq.engine.engine import Engine
from rowq.errors import QueueNotFound, StoreBusy, StoreUnavailable
from rowq.model.message import State, Stats
from rowq.model.queue import Settings, check_own_name
from rowq.store import operate
from rowq.store.dialect import Row
from rowq.store.due_time import FOR_EVER
from rowq.store.locked_message import hold_waiting
from rowq.store.transaction import Transaction
from rowq.store.transfer import exporter, importer, progress
from rowq.transfer.route import Transfer

Advance = Callable[[int], None]
"""Called with how much is done so far."""

_LOOK_EVERY = 0.05
_REMOVED = (State.BLOCKED, State.SCHEDULED, State.READY, State.LEASED, State.DEAD, State.FINISHED)
"""Followers first: otherwise each of them would be promoted before it is removed."""


class Counts(msgspec.Struct, frozen=True):
    """How many messages of a copy are in which state."""

    ready: int
    scheduled: int
    leased: int
    blocked: int
    dead: int
    finished: int

    @property
    def sums(self) -> tuple[int, int, int]:
        """Sums that neither due times nor released leases change: all waiting messages, dead letters, the history."""
        return self.ready + self.scheduled + self.leased + self.blocked, self.dead, self.finished


class QueueReport(msgspec.Struct, frozen=True):
    """The result for one queue. It has no counts if it was complete before this run: its messages may be anywhere by now."""

    queue: str
    copied: int
    """In this run."""
    removed: int
    later: int
    """Messages sent to the source since; the next run takes them."""
    source: Counts | None
    target: Counts | None

    @property
    def agrees(self) -> bool:
        return self.source is None or self.target is None or self.source.sums == self.target.sums


class Survey(msgspec.Struct, frozen=True):
    """What would be copied, and why the target could not be read, if it could not."""

    queues: list[Stats]
    target: str | None


@contextmanager
def open_copier(source: str, target: str, queues: Sequence[str] | None, *, actor: str | None, with_audit: bool = True) -> Iterator[Copier]:
    """All queues, or the named ones. The source must exist; the target is created."""
    _refuse_servers(source, target)
    with closing(open_engine(source, maintenance=False, actor=actor, migrate=False)) as origin:
        chosen = _chosen(origin, queues)
        with closing(open_engine(target, maintenance=False, actor=actor)) as destination:
            transfer = Transfer(origin, destination, chosen)
            yield Copier(transfer, everything=queues is None, with_audit=with_audit)


def survey(source: str, target: str, queues: Sequence[str] | None) -> Survey:
    """Changes and creates nothing."""
    _refuse_servers(source, target)
    with closing(open_engine(source, maintenance=False, migrate=False)) as origin:
        chosen = _chosen(origin, queues)
        found = [origin.insights.stats(queue) for queue in chosen]
        try:
            with closing(open_engine(target, maintenance=False, migrate=False)) as destination:
                Transfer(origin, destination, chosen).check()
        except StoreUnavailable as error:
            return Survey(found, str(error))
    return Survey(found, None)


class Stage(NamedTuple):
    """A part of the copy: its name, how much there is to do, and how it is done."""

    title: str
    total: int
    run: Callable[[Advance], None]


class Copier:
    """`begin`, then all of the `stages`, then `finish`; optionally `remove`."""

    def __init__(self, transfer: Transfer, *, everything: bool, with_audit: bool) -> None:
        """`everything`: all queues of the source, and rows whose queue is unknown."""
        self._transfer = transfer
        self._source = transfer.source
        self._everything = everything
        self._with_audit = with_audit
        self._copied: Counter[str] = Counter()
        self._removed: Counter[str] = Counter()
        self._counts: dict[str, tuple[Counts, Counts]] = {}
        self._settings: dict[str, Settings] = {}
        self._ends: dict[str, int] = {}
        """Up to where this run goes, in the numbers of the source."""

    def begin(self, patience: float = 0.0) -> int:
        """Creates the queues at the target, pauses those of the source, and waits up to `patience` seconds for its consumers. Gives how
        many leases are left. The state of the source is recorded in the target before it is changed, for a run that has to continue."""
        self._settings = {queue: self._source.insights.settings(queue) for queue in self._transfer.queues}
        self._transfer.begin(self._settings)
        self._pause()
        leases = self._wait_for_leases(patience)
        self._ends = self._find_ends()
        self._transfer.start("replaced", self._ends["audit"])
        return leases

    def stages(self) -> list[Stage]:
        """In order. The audit comes first, so that later events at the target come after those at the source."""
        stats = [self._source.insights.stats(queue) for queue in self._transfer.queues]
        stages = [
            Stage("messages", sum(each.depth + each.dead for each in stats), self._copy_messages),
            Stage("history", sum(each.finished for each in stats), self._copy_history),
            Stage("replacements", self._ends["audit"], self._copy_replacements),
        ]
        if self._with_audit:
            stages = [
                Stage("audit", self._ends["audit"], self._copy_audit),
                *stages,
                Stage("ids", self._ends["audit"], self._copy_names),
            ]
        return stages

    def finish(self) -> list[QueueReport]:
        """Compares, and gives the queues of the target the settings that those of the source had."""
        transfer, floor = self._transfer, self._ends["messages"]
        entries = self._copy_extras()
        first_time = [queue for queue, course in transfer.courses.items() if not course.is_complete]
        if not self._source.dialect.has_one_writer:
            self._look_again()
        self._compare(first_time)
        if any(sum(target.sums) < sum(source.sums) for source, target in self._counts.values()):
            self._look_again()
            self._compare(first_time)
        complete = partial(progress.complete, source=transfer.identity, courses=transfer.courses, settings=self._settings)
        transfer.target.act(partial(complete, floor=floor, entries=entries))
        return self.report()

    def remove(self, advance: Advance) -> list[QueueReport]:
        """Deletes from the source what the target has, and nothing else."""
        for query, part in (("list_bodies", "messages"), ("list_history", "history")):
            for rows in self._transfer.pieces(query, 0, self._ends[part]):
                self._removed.update(self._remove_known(rows))
                advance(self._removed.total())
        for queue, count in sorted(self._removed.items()):
            self._source.act(partial(operate.note_purge, queue=queue, count=count, states=list(_REMOVED)))
        return self.report()

    def report(self) -> list[QueueReport]:
        last, nothing = self._ends["messages"], (None, None)
        return [
            QueueReport(
                queue,
                self._copied[queue],
                self._removed[queue],
                self._transfer.ask("count_later", queue=queue, last=last)[0][0],
                *self._counts.get(queue, nothing),
            )
            for queue in self._transfer.queues
        ]

    def _pause(self) -> None:
        """Waits until consumers in other processes no longer use settings that they cached a moment ago."""
        at_work = [queue for queue in self._transfer.queues if not self._source.insights.policy(queue).paused]
        for queue in at_work:
            self._source.driver.drive(self._source.verbs.configure(queue, {"paused": True}))
        if at_work:
            time.sleep(self._source.dialect.settings_max_age_ms / 1000)

    def _wait_for_leases(self, patience: float) -> int:
        until = running() + patience
        while True:
            now = self._source.clock.now()
            counts = [self._transfer.ask("count_running_leases", queue=queue, now=now)[0][0] for queue in self._transfer.queues]
            if not any(counts) or running() >= until:
                return sum(counts)
            time.sleep(_LOOK_EVERY)

    def _find_ends(self) -> dict[str, int]:
        """The ends of lines first: every seq that they mention is then covered."""
        audit, history = self._transfer.ask("read_ends")[0]
        last = min(self._transfer.ask("read_last_seq")[0][0], *[course.room for course in self._transfer.courses.values()])
        self._wait_for_senders()
        return {"audit": audit or 0, "history": history or 0, "messages": last}

    def _wait_for_senders(self) -> None:
        """A transaction that has drawn a seq must have ended: the copy would miss its messages."""
        until, senders = running() + self._source.dialect.timeout, self._find_senders()
        while senders:
            if running() > until:
                raise StoreBusy("a transaction at the source has sent messages and is still open: end it, and run the copy again")
            time.sleep(_LOOK_EVERY)
            senders &= self._find_senders()

    def _find_senders(self) -> set[str]:
        return {row[0] for row in self._transfer.ask("find_open_senders")}

    def _copy_messages(self, advance: Advance) -> None:
        for rows in self._transfer.fresh_pieces("list_bodies", "messages", self._ends["messages"]):
            found = self._transfer.read(exporter.read_messages, [row[0] for row in rows])
            arrived = self._transfer.write("messages", rows, partial(importer.import_messages, exported=found, bases=self._transfer.bases))
            self._copied.update([one.held.queue for one in found] if arrived is None else arrived)
            advance(self._copied.total())

    def _copy_history(self, advance: Advance) -> None:
        done, transfer = 0, self._transfer
        for rows in transfer.fresh_pieces("list_history", "history", self._ends["history"]):
            lines = [row[0] for row in rows if transfer.courses[row[1]].takes(row[3])]
            found = transfer.read(exporter.read_finished, lines) if lines else []
            arrived = transfer.write("history", rows, partial(importer.import_finished, finished=found, bases=transfer.bases))
            self._copied.update([one.queue for one in found] if arrived is None else arrived)
            done += len(rows)
            advance(done)

    def _copy_audit(self, advance: Advance) -> None:
        for rows in self._transfer.fresh_pieces("list_events", "audit", self._ends["audit"]):
            self._transfer.write("audit", rows, partial(importer.bring_events, events=rows, courses=self._transfer.courses))
            advance(rows[-1][0])

    def _copy_names(self, advance: Advance) -> None:
        """The ids of messages that are gone. A message still at the source has come with its id, or was missed and will come."""
        for rows in self._transfer.fresh_pieces("list_enqueued", "names", self._ends["audit"]):
            present = {row[0] for row in self._transfer.ask("find_origins", seqs=[row[3] for row in rows])}
            gone = [row for row in rows if row[3] not in present]
            self._transfer.write("names", rows, partial(importer.name_gone, events=gone, courses=self._transfer.courses))
            advance(rows[-1][0])

    def _copy_replacements(self, advance: Advance) -> None:
        """Messages that were replaced by their keys since they were copied."""
        last = self._transfer.ask("read_ends")[0][0] or 0
        self._wait_for_senders()
        for rows in self._transfer.fresh_pieces("list_replaced", "replaced", last):
            found = self._transfer.read(exporter.read_messages, sorted({row[3] for row in rows}))
            self._transfer.write("replaced", rows, partial(importer.replace, exported=found, bases=self._transfer.bases))
            advance(rows[-1][0])

    def _copy_extras(self) -> int:
        """Small, and safe to copy twice. Gives when the newest of the undelivered keys was written."""
        transfer, newest = self._transfer, 0
        for queue, course in transfer.courses.items():
            for ids in transfer.streamed("list_gone_ids", queue=queue):
                transfer.target.act(partial(importer.bring_gone_ids, ids=ids, course=course))
            for answers in transfer.streamed("list_answers", first=f"{queue}/", last=f"{queue}0"):
                transfer.target.act(partial(importer.bring_answers, answers=answers))
        for entries in transfer.streamed("read_kv", low="[", high="[^", limit=FOR_EVER):
            bring = partial(importer.bring_entries, entries=entries, courses=transfer.courses, everything=self._everything)
            transfer.target.act(bring)
            newest = max(newest, *[entry[3] for entry in entries])
        return newest

    def _compare(self, queues: list[str]) -> None:
        last = self._ends["messages"]
        for queue in queues:
            base = self._transfer.courses[queue].base
            there = self._transfer.ask("count_between", queue=queue, first=1, last=last)[0]
            with self._transfer.target.dialect.reading() as session:
                here = session.rows("count_between", queue=queue, first=base + 1, last=base + last)[0]
            self._counts[queue] = Counts(*there), Counts(*here)

    def _look_again(self) -> None:
        """Finds messages committed late, below a seq that the copy had passed. There are no consumers at the target yet: what it does not
        know has not arrived."""
        for rows in self._transfer.pieces("list_bodies", 0, self._ends["messages"]):
            wanted = {(row[1], exporter.id_of(row)): row[3] for row in rows if not self._transfer.courses[row[1]].is_complete}
            missing = sorted(wanted[named] for named in wanted.keys() - self._transfer.known(wanted))
            found = self._transfer.read(exporter.read_messages, missing) if missing else []
            if found:
                self._copied.update(
                    self._transfer.target.act(partial(importer.import_messages, exported=found, bases=self._transfer.bases))
                )

    def _remove_known(self, rows: list[Row]) -> Counter[str]:
        wanted = {(row[1], exporter.id_of(row)): row for row in rows}
        known = [wanted[named] for named in self._transfer.known(wanted)]
        removed: Counter[str] = Counter()
        for queue in sorted({row[1] for row in known}):
            seqs = sorted(row[3] for row in known if row[1] == queue)
            after = self._transfer.courses[queue].replaced
            removed[queue] = self._source.act(partial(_purge, queue=queue, seqs=seqs, after=after))
        return removed


def _purge(tx: Transaction, queue: str, seqs: list[int], after: int) -> int:
    """Without those replaced by their keys after that line of the audit: the next run copies the replacements first."""
    hold_waiting(tx.session, seqs)  # from here on they cannot be replaced
    replaced = {row[0] for row in tx.session.rows("find_replaced", seqs=seqs, after=after)}
    gone = [seq for seq in seqs if seq not in replaced]
    return sum(operate.purge(tx, queue, state, gone) for state in _REMOVED) if gone else 0


def _chosen(source: Engine, queues: Sequence[str] | None) -> list[str]:
    """In order, each once. A queue that does not exist is reported before anything is created."""
    if queues is None:
        chosen = [stats.queue for stats in source.insights.queues()]
        if not chosen:
            raise QueueNotFound("there is no queue at the source: nothing was ever sent to it")
        return chosen
    chosen = sorted({check_own_name(queue) for queue in queues})
    for queue in chosen:
        source.insights.settings(queue)
    return chosen


def _refuse_servers(*urls: str) -> None:
    for url in urls:
        refuse_server(url, "a copy goes from one database to another, and one of these is a server")
