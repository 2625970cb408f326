"""In and out: load and dump, which are messages as JSON Lines in constant memory, and copy into another database."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

import rowq
from rowq import Broker, Draft, IdTaken, InvalidArgument, OutcomeUnknown, RowqError
from rowq.cli import files
from rowq.cli.command import Session, actor
from rowq.cli.files import LONGEST_LINE, arrivals
from rowq.cli.output import INTERRUPTED, Column, Failure, exit_code_of
from rowq.cli.parameter import OptionalQueue, Yes, duration_option
from rowq.cli.terminal import Advance, bar, confirm
from rowq.cli.text import counted, json_line, size
from rowq.model.message import Stats
from rowq.transfer import line
from rowq.transfer.copy import Counts, QueueReport, Survey, open_copier, survey
from rowq.transfer.line import Read

# In this order the head of a group comes before its followers, and messages taken first come first again.
_TO_BE_DONE = (rowq.State.LEASED, rowq.State.READY, rowq.State.SCHEDULED, rowq.State.BLOCKED)
_IN_ORDER = (*_TO_BE_DONE, rowq.State.DEAD, rowq.State.FINISHED)
_STATES = Counts.__struct_fields__
_EVERY = 1000
BATCH_LINES = 500
BATCH_BYTES = 4 << 20
_POSITION = re.compile(r"position (\d+)")

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="A file, or - for stdin and stdout; the default.", show_default=False)]
From = Annotated[str, typer.Argument(metavar="FROM", help="The URL of the database that has the queues.", show_default=False)]
To = Annotated[str, typer.Argument(metavar="TO", help="The URL of the database to copy to; its tables are created.", show_default=False)]
FileOption = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="The same as FILE, if no QUEUE is given.")]


def load(
    session: Session,
    queue: OptionalQueue = None,
    file: File = None,
    file_option: FileOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Each line is a payload, in JSON.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Each line is a payload, as text.")] = False,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Send under the ids of the lines.")] = False,
    skip: Annotated[int, typer.Option("--skip", min=0, help="Skip this many lines at the beginning.")] = 0,
    skip_known: Annotated[bool, typer.Option("--skip-known", help="With --keep-ids: skip ids that are already here.")] = False,
) -> None:
    """Send messages from JSON Lines, of any length.

    A line is what dump writes, for instance {"payload": {"to": "ada"}, "key": "welcome-42"}.
    It has payload or payload_base64, and may have headers, key, group, priority, delay_ms or at_ms,
    ttl_ms, deadline_ms, max_attempts, backoff_ms, keys_if_undelivered, id. Without QUEUE each line names its queue.
    Messages are sent as new: attempts start at zero, and ids are new unless --keep-ids.

    At a bad line it stops, and shows which line it is and how to continue: with --skip N.
    Then the first N lines are in the queue, and no others.
    After a crash, when N is unknown, a load with --keep-ids --skip-known can be repeated.
    """
    if (skip_known and not keep_ids) or (keep_ids and (raw or text)):
        raise rowq.InvalidArgument("--skip-known needs --keep-ids, and --keep-ids needs lines with ids, not --raw or --text ones")
    chosen = _one(file, file_option)
    _check_is_queue(queue, chosen)
    read = line.reader(raw=raw, text=text, keep_ids=keep_ids, need_ids=skip_known)
    with (
        files.source(chosen) as source,
        session.connect(create=True) as broker,
        bar("load", files.size_of(source), of_bytes=True) as advance,
    ):
        loading = Loading(broker, queue, skip=skip, skip_known=skip_known)
        loading.run(source, read, advance)
    known = f", {counted(loading.known, 'line')} passed over" if skip_known else ""
    session.output.answer(f"{counted(loading.loaded, 'message')} loaded{known}", loaded=loading.loaded, known=loading.known)


def dump(
    session: Session,
    queue: OptionalQueue = None,
    file: File = None,
    file_option: FileOption = None,
    state: Annotated[
        list[rowq.State] | None, typer.Option("--state", help="Which messages; may be repeated. Default: all that is still to be done.")
    ] = None,
) -> None:
    """Write the messages of a queue, or of all, as JSON Lines.

    Dead letters and finished messages are only written with --state, since load would send them again.
    The file appears under its name when it is complete.
    """
    states = [each for each in _IN_ORDER if each in (state or _TO_BE_DONE)]
    chosen = _one(file, file_option)
    count = 0
    with session.connect() as broker:
        counts = broker.queues() if queue is None else [broker.stats(queue)]
        total = sum(getattr(each, name) for each in counts for name in states)
        now = rowq.SystemClock().now()
        with files.sink(chosen, session.output) as write, bar("dump", total, hidden=_shares_the_screen(chosen)) as advance:
            for message in broker.walk(queue, states=states):
                write(json_line(line.to_line(message, now)))
                count += 1
                if count % _EVERY == 0:
                    advance(count)
    if files.is_named(chosen):
        session.output.answer(f"{counted(count, 'message')} dumped", dumped=count, file=str(chosen))


def _one(file: Path | None, file_option: Path | None) -> Path | None:
    if file is not None and file_option is not None:
        raise rowq.InvalidArgument("give one file: as FILE or as --file FILE")
    return file or file_option


def _check_is_queue(queue: str | None, file: Path | None) -> None:
    """`load FILE` at a terminal would take the file's name for a queue's, and wait for typed lines."""
    if queue is not None and file is None and sys.stdin is not None and sys.stdin.isatty() and Path(queue).is_file():
        raise rowq.InvalidArgument(f"{queue} is a file: load QUEUE {queue}, or load --file {queue} where each line names its queue")


def _shares_the_screen(file: Path | None) -> bool:
    """A progress bar would disturb a dump to the terminal."""
    return not files.is_named(file) and sys.stdout.isatty()


class Loading:
    """One load. `through` is the line up to which everything is loaded (or was skipped on purpose)."""

    def __init__(self, broker: Broker, queue: str | None, *, skip: int, skip_known: bool) -> None:
        self.through = skip
        self.loaded = 0
        self.known = 0
        self._broker = broker
        self._queue = queue
        self._skip_known = skip_known
        self._batch: list[Draft] = []
        self._numbers: list[int] = []
        self._bytes = 0
        self._target = ""
        self._sending = False
        self._stop = False
        self._unsure = False

    def run(self, source: BufferedIOBase, read: Read, advance: Advance) -> None:
        """Sends every line of the source, or fails with what was loaded and how to continue."""
        number, skip, position = 0, self.through, 0
        with self._interruptible():
            try:
                for lines, is_all in arrivals(source):
                    for line in lines:
                        number += 1
                        position += len(line) + 1
                        if number > skip:
                            self._take(number, line, read)
                    if is_all:
                        self._flush()
                    advance(position)
                self._flush()
            except KeyboardInterrupt:
                raise self._stopped("interrupted" + self._doubt(), number, code="interrupted", exit_code=INTERRUPTED) from None
        if number < skip:
            raise InvalidArgument(f"--skip {skip} is more than the {counted(number, 'line')} that are there")

    def _take(self, number: int, line: bytes, read: Read) -> None:
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            if len(line) > LONGEST_LINE:
                raise InvalidArgument(f"it is longer than {size(LONGEST_LINE)}")
            parcel = read(line)
            target = self._queue or parcel.queue
            if target is None:
                raise InvalidArgument("it does not name a queue: give one, as rowq load QUEUE")
        except InvalidArgument as error:
            if not line.strip():
                return
            self._flush()
            self.through = number - 1
            raise self._stopped(str(error), number, code=error.code, exit_code=exit_code_of(error)) from None
        if self._batch and target != self._target:
            self._flush()
        self._target = target
        self._batch.append(parcel.draft)
        self._numbers.append(number)
        self._bytes += len(line)
        if len(self._batch) >= BATCH_LINES or self._bytes >= BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._batch:
            return
        self._sending = True
        try:
            self._send()
        except RowqError as error:
            raise self._refused(error) from None
        finally:
            self._sending = False
        self._batch, self._numbers, self._bytes = [], [], 0
        if self._stop:
            raise KeyboardInterrupt

    def _send(self) -> None:
        try:
            self._broker.send_many(self._target, self._batch)
            self.loaded += len(self._batch)
            self.through = self._numbers[-1]
        except IdTaken:
            if not self._skip_known:
                raise
            self._send_one_by_one()

    def _send_one_by_one(self) -> None:
        """Tells the lines of a batch that an earlier load sent from those it did not."""
        for number, draft in zip(self._numbers, self._batch, strict=True):
            try:
                self._broker.send_many(self._target, [draft])
                self.loaded += 1
            except IdTaken:
                self.known += 1
            self.through = number

    def _refused(self, error: RowqError) -> Failure:
        found = _POSITION.search(str(error))
        left = self._left()
        number = left[min(int(found[1]), len(left) - 1)] if found else left[0]
        self._unsure = isinstance(error, OutcomeUnknown)
        return self._stopped(str(error) + self._doubt(), number, code=error.code, exit_code=exit_code_of(error))

    def _left(self) -> list[int]:
        """The lines of the current batch that are not known to be in the queue."""
        return [number for number in self._numbers if number > self.through]

    def _doubt(self) -> str:
        return f" (lines {self._left()[0]} to {self._left()[-1]} may or may not be in the queue)" if self._unsure else ""

    def _stopped(self, sentence: str, number: int, *, code: str, exit_code: int) -> Failure:
        told = f"line {number}: {sentence}; {counted(self.loaded, 'message')} loaded; to go on: --skip {self.through}"
        return Failure(told, code=code, exit_code=exit_code, line=number, loaded=self.loaded, skip=self.through)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Lets Ctrl-C wait for the current batch: interrupted in the middle, it may or may not be written. A second one cuts it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if not self._sending:
                raise KeyboardInterrupt
            if self._stop:
                self._unsure = True
                raise KeyboardInterrupt
            self._stop = True

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def copy(
    session: Session,
    source: From,
    target: To,
    queue: Annotated[list[str] | None, typer.Option("--queue", help="Only this queue; may be repeated. Default: all.")] = None,
    wait_for_leases: Annotated[
        float | None, duration_option("--wait-for-leases", "Let consumers finish first, for at most this long.")
    ] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Do not copy the audit.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="At the end, delete from FROM what has arrived at TO, after asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what there is to copy.")] = False,
    yes: Yes = False,
) -> None:
    """Copy queues into another database, with all their data.

    The queues of FROM are paused, and stay paused. Messages keep their ids, order, state and attempts. A leased
    message arrives as ready: a consumer that settles it at FROM afterwards has processed it in vain. At TO the
    queues are paused until the copy is complete.

    Run an interrupted copy again to continue it. Messages sent to FROM meanwhile are copied by the next run.
    """
    queues = queue or None
    if dry_run:
        _show_survey(session, survey(source, target, queues))
        return
    if remove:
        confirm("Delete at FROM what has arrived at TO?", yes=yes)
    with open_copier(source, target, queues, actor=actor(), with_audit=not no_audit) as copier:
        leases = copier.begin(wait_for_leases or 0.0)
        for stage in copier.stages():
            with bar(stage.title, stage.total) as advance:
                stage.run(advance)
        reports = copier.finish()
        if remove:
            with bar("remove", sum(sum(report.source.sums) for report in reports if report.source)) as advance:
                reports = copier.remove(advance)
    _show(session, reports, leases, removed=remove)


def _show_survey(session: Session, found: Survey) -> None:
    total = sum(stats.depth + stats.dead + stats.finished for stats in found.queues)
    if session.output.json:
        queues = [{"queue": stats.queue, **_by_state(stats)} for stats in found.queues]
        session.output.document({"messages": total, "queues": queues, "target": found.target})
        return
    session.output.table(_columns("queue"), ([stats.queue, *_cells(stats)] for stats in found.queues))
    session.output.line(f"{counted(total, 'message')} to copy; nothing was changed")
    if found.target is not None:
        session.output.line(f"TO could not be read: {found.target}")


def _show(session: Session, reports: Sequence[QueueReport], leases: int, *, removed: bool) -> None:
    copied, gone, later = (sum(getattr(report, name) for report in reports) for name in ("copied", "removed", "later"))
    differing = [report for report in reports if not report.agrees]
    if session.output.json:
        queues = [{**msgspec.to_builtins(report), "agrees": report.agrees} for report in reports]
        document: dict[str, Any] = {"copied": copied, "removed": gone, "later": later, "leases": leases, "agrees": not differing}
        session.output.document({**document, "queues": queues})
        return
    session.output.table(_columns("queue", "copied"), (_row(report) for report in reports))
    session.output.line(_sentence(reports, copied, differ=bool(differing)))
    for report in differing:
        here, there = _told(report.source), _told(report.target)
        session.output.line(f"{report.queue}: {here} at FROM, {there} at TO; each of FROM was looked up at TO")
    if leases:
        session.output.line(f"{counted(leases, 'lease')} ran on at FROM: what is settled there from now on is delivered again at TO")
    if later:
        session.output.line(f"{counted(later, 'message')} came to FROM meanwhile: stop the producers there, and run the copy again")
    if removed:
        session.output.line(f"{counted(gone, 'message')} deleted at FROM")


def _sentence(reports: Sequence[QueueReport], copied: int, *, differ: bool) -> str:
    if any(report.source is not None for report in reports):
        return f"{counted(copied, 'message')} copied; the counts {'differ' if differ else 'agree'}"
    return f"{counted(copied, 'message')} copied" if copied else "nothing new: all of it had arrived before"


def _columns(*first: str) -> list[Column]:
    return [Column(name, right=name != "queue", style="cyan" if name == "queue" else "") for name in (*first, *_STATES)]


def _row(report: QueueReport) -> list[str]:
    counts = [""] * len(_STATES) if report.target is None else _cells(report.target)
    return [report.queue, f"{report.copied:,}", *counts]


def _cells(counts: Stats | Counts) -> list[str]:
    return [f"{count:,}" for count in _by_state(counts).values()]


def _by_state(counts: Stats | Counts) -> dict[str, int]:
    return {state: getattr(counts, state) for state in _STATES}


def _told(counts: Counts | None) -> str:
    waiting, dead, finished = (0, 0, 0) if counts is None else counts.sums
    return f"{waiting:,} to be done, {dead:,} dead, {finished:,} finished"
