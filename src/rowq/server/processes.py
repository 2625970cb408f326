"""Several worker processes behind one set of sockets: forked, watched, replaced when one dies, and stopped together.

They are forked, not spawned, so that all share what the parent has created: the sockets, which lose no connection when a worker dies;
the authenticator with the secret of its tokens; the TLS context with the keys of its tickets; the worker state. The parent never has
a thread or an open database when it forks: it only waits.
"""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

from rowq.clock import running
from rowq.errors import RowqError, ServerUnavailable

_log = logging.getLogger("rowq.server")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds until a dead worker is replaced; doubled each time, until one has served for STEADY seconds."""
STEADY = 10.0
MOST_STARTS = 5
"""How often in a row a worker may die before it serves while no other worker serves."""

_STOP = (signal.SIGINT, signal.SIGTERM)
_LONGEST_REASON = 500
"""Characters: a report must fit into one atomic write to a pipe."""


class Report(msgspec.Struct):
    """A worker's single report to its parent: that it serves, or why it cannot."""

    pid: int
    failure: str | None


class Worker:
    """A worker, seen from its own process. `lifeline` becomes readable when the parent has died."""

    def __init__(self, number: int, lifeline: int, reports: int) -> None:
        self.number = number
        self.lifeline = lifeline
        self._reports = reports

    def tell_ready(self) -> None:
        self._tell(None)

    def tell_failure(self, reason: str) -> None:
        self._tell(reason[:_LONGEST_REASON])

    def _tell(self, failure: str | None) -> None:
        with suppress(BrokenPipeError):  # the parent has died, which the lifeline reports too
            os.write(self._reports, msgspec.json.encode(Report(os.getpid(), failure)) + b"\n")


class _Place:
    """A worker, seen from the parent: its current process, and the fate of the previous ones."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.ready_at: float | None = None
        self.start_at = 0.0
        self.deaths = 0
        self.failures = 0
        self.reason = ""


class Workers:
    """`work` runs in each worker until it returns. The rest is called in the parent: `on_ready` once, when all serve; `on_stop` when
    all are to stop; `on_end` with the number of a worker that has ended."""

    def __init__(
        self,
        count: int,
        work: Callable[[Worker], None],
        *,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        on_end: Callable[[int], None],
    ) -> None:
        self._work = work
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._on_end = on_end
        self._places = [_Place(number) for number in range(count)]
        self._was_ready = False
        self._signal: int | None = None
        self._is_stopping = False
        self._error: RowqError | None = None
        self._lifeline, self._life = os.pipe()
        self._reports, self._reporting = os.pipe()
        self._alarm, self._alarming = os.pipe()
        for end in (self._reports, self._alarm, self._alarming):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Returns when all have stopped on request. Raises ServerUnavailable if they cannot start, or if one died while stopping."""
        with self._hearing_signals():
            try:
                while not self._is_stopping or any(place.pid for place in self._places):
                    if self._signal is not None and not self._is_stopping:
                        _log.info("rowq is stopping; a second signal ends it at once")
                        self._stop()
                    self._start_those_due()
                    self._wait()
                    self._read_reports()
                    self._bury()
            finally:
                self._kill()
        if self._error is not None:
            raise self._error

    @contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._hear) for number in (*_STOP, signal.SIGCHLD)}
        alarm = signal.set_wakeup_fd(self._alarming, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(alarm)
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (self._lifeline, self._life, self._reports, self._reporting, self._alarm, self._alarming):
                os.close(end)

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signal.signal calls it
        if number not in _STOP:
            return  # a worker has ended: waking the select is enough
        if self._signal is not None:
            self._kill()
            os._exit(128 + number)
        self._signal = number

    def _stop(self) -> None:
        self._is_stopping = True
        self._on_stop()
        self._send(signal.SIGTERM)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for place in self._places:
            if place.pid is not None:
                os.kill(place.pid, number)  # its pid stays valid until _bury has waited for it

    def _start_those_due(self) -> None:
        if self._is_stopping:
            return
        for place in self._places:
            if place.pid is None and place.start_at <= running():
                self._start(place)

    def _start(self, place: _Place) -> None:
        """Signals are blocked meanwhile: a new worker must not handle one with its parent's handler."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
        try:
            place.ready_at, place.reason = None, ""
            pid = os.fork()
            if pid == 0:
                self._be(Worker(place.number, self._lifeline, self._reporting))
            place.pid = pid
        except OSError as error:
            self._note_end(place, f"could not be started: {error.strerror}")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)

    def _be(self, worker: Worker) -> None:
        """Runs in the new process, which exits here and never returns into the parent's stack."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_STOP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
            for end in (self._life, self._reports, self._alarm, self._alarming):
                os.close(end)
            self._work(worker)
            code = 0
        except RowqError as error:
            worker.tell_failure(str(error))
        except BaseException as error:
            _log.exception("a worker failed")
            worker.tell_failure(f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)

    def _wait(self) -> None:
        due = [place.start_at for place in self._places if place.pid is None and not self._is_stopping]
        pause = max(0.0, min(due) - running()) if due else None
        select.select([self._reports, self._alarm], [], [], pause)
        with suppress(BlockingIOError):
            while os.read(self._alarm, 4096):
                pass

    def _read_reports(self) -> None:
        told = b""
        with suppress(BlockingIOError):
            while piece := os.read(self._reports, 65_536):
                told += piece
        for line in told.splitlines():
            report = msgspec.json.decode(line, type=Report)
            for place in self._places:
                if place.pid == report.pid:
                    self._take(place, report)
        if not self._was_ready and not self._is_stopping and all(place.ready_at is not None for place in self._places):
            self._was_ready = True
            self._on_ready()

    def _take(self, place: _Place, report: Report) -> None:
        if report.failure is not None:
            place.reason = report.failure
            return
        place.ready_at, place.failures = running(), 0

    def _bury(self) -> None:
        for place in self._places:
            if place.pid is None:
                continue
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if pid:
                place.pid = None
                self._on_end(place.number)
                self._settle(place, os.waitstatus_to_exitcode(status))

    def _settle(self, place: _Place, code: int) -> None:
        served = place.ready_at is not None
        how = f"failed: {place.reason}" if place.reason else _manner(code)
        if self._is_stopping:
            if code != 0 and served and self._error is None:
                self._error = ServerUnavailable(f"worker {place.number + 1} {how} before it had answered all requests")
        elif code == 0:
            _log.info("worker %d was told to stop, and is replaced", place.number + 1)
            place.start_at = running()
        else:
            self._note_end(place, how)

    def _note_end(self, place: _Place, how: str) -> None:
        if place.ready_at is None:
            place.failures += 1
        elif running() - place.ready_at > STEADY:
            place.deaths = 0
        none_serves = not any(other.pid is not None and other.ready_at is not None for other in self._places)
        if place.failures >= MOST_STARTS and (none_serves or not self._was_ready):
            self._error = ServerUnavailable(f"the server cannot start: worker {place.number + 1} {how}")
            self._stop()
            return
        pause = min(FIRST_PAUSE * 2.0 ** min(place.deaths, 10), LONGEST_PAUSE)
        place.deaths += 1
        place.start_at = running() + pause
        _log.error("worker %d %s; it is replaced in %g s", place.number + 1, how, pause)


def _manner(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a signal without a name
        return f"was ended by signal {-code}"
