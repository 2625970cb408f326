"""Loading: lines are sent in batches, and the last line up to which everything is in the queue is always known."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from types import FrameType

from rowq import Broker, Draft, IdTaken, InvalidArgument, OutcomeUnknown, RowqError
from rowq.cli.failure import INTERRUPTED, Failure, exit_code_of
from rowq.cli.files import LONGEST_LINE, arrivals
from rowq.cli.progress import Advance
from rowq.cli.text import counted, size
from rowq.transfer.line import Read

BATCH_LINES = 500
BATCH_BYTES = 4 << 20
_POSITION = re.compile(r"position (\d+)")


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
