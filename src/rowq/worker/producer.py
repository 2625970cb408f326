"""A producer: collects messages, and sends them together. AsyncProducer (async_producer.py) is the same for event loops."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from datetime import datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Self, Unpack

from rowq.engine.engine import Engine
from rowq.engine.fork import forks
from rowq.engine.operation import Operation, take_each
from rowq.errors import BrokerClosed, IdTaken, InvalidArgument, OutcomeUnknown, RowqError
from rowq.model.draft import Prepared, prepare
from rowq.model.duration import Duration, to_ms
from rowq.model.message import Draft, Payload, PushOptions, SendOptions
from rowq.model.queue import check_own_name
from rowq.worker.patience import Patience

_log = logging.getLogger("rowq.workers")

MOST_IN_A_BATCH = 10_000
MOST_BATCHES = 10
MOST_BYTES = 64 << 20
"""Maximum bytes that wait; above this, a push sends first."""


class Pushed(Future[str]):
    """A message on its way. `result()` waits until it is on disk and gives its id, or raises why it never will be."""

    def result(self, timeout: Duration | None = None) -> str:
        return super().result(_seconds(timeout))

    def exception(self, timeout: Duration | None = None) -> BaseException | None:
        return super().exception(_seconds(timeout))


class _Parcel:
    __slots__ = ("deadline", "message", "pushed")

    def __init__(self, message: Prepared, deadline: float | None) -> None:
        self.message = message
        self.deadline = deadline
        self.pushed = Pushed()
        self.pushed.set_running_or_notify_cancel()

    def addressed(self) -> Prepared:
        """A deadline is a moment: the time since the push has been used up."""
        if self.deadline is not None:
            self.message.deadline_ms = max(1, round((self.deadline - time.time()) * 1000))
        return self.message


class Producer:
    """Created by `broker.producer(queue)`.

    >>> with broker.producer("emails", batch_size=100) as producer:  # doctest: +SKIP
    ...     producer.push({"to": "ada@example.com"}, deadline=60)
    """

    def __init__(self, engine: Engine, queue: str, batch_size: int, linger: Duration, options: SendOptions) -> None:
        if type(batch_size) is not int or not 1 <= batch_size <= MOST_IN_A_BATCH:
            raise InvalidArgument(f"batch_size must be between 1 and {MOST_IN_A_BATCH}, not {batch_size!r}")
        self._engine = engine
        self._queue = check_own_name(queue)
        self.batch_size = batch_size
        self._linger = to_ms(linger, "linger") / 1000
        self._options = options
        self._is_closed = False
        self.be_forked()
        self.pack(None, None, {})  # reports a wrong option here, not at the first push

    def be_forked(self) -> None:
        """Resets it. In a child process: the parent sends what waits, and its threads may hold the locks."""
        self._parcels: deque[_Parcel] = deque()
        self._bytes = 0
        self._due_at = 0.0
        self._refused: RowqError | None = None
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._sender: threading.Thread | None = None
        forks.watch(self)

    def hold_still(self) -> None:
        """A fork may happen at any time."""

    go_on = hold_still

    def push(self, payload: Payload, *, deadline: Duration | datetime | None = None, **options: Unpack[PushOptions]) -> Pushed:
        """Takes a message. With a batch size of 1 it is on disk when this returns; else it is sent with its batch."""
        parcel = self.pack(payload, deadline, options)
        if self.batch_size == 1:
            return take_each(self.send_now(parcel), self._engine.driver.drive)
        if self.is_full():
            self.send_all()
        return self.post(parcel)

    def flush(self) -> None:
        """Sends all that waits. Raises on failure: what could not be sent now keeps waiting; what never can be fails in its `Pushed`
        too."""
        self.send_all()
        with self._changed:
            refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def close(self) -> None:
        """Flushes, and takes no more messages. If something could not be sent it stays open, so that it can be closed again."""
        while not self._is_closed:
            try:
                self.flush()
            finally:
                self._end_if_empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def pack(self, payload: Payload, deadline: Duration | datetime | None, options: PushOptions) -> _Parcel:
        """Encoded here, so later changes to the payload have no effect."""
        said: SendOptions = {**self._options, **options}
        seconds = _to_seconds(said.get("deadline") if deadline is None else deadline)
        said["deadline"] = seconds
        message = prepare(self._queue, Draft(payload, **said))
        return _Parcel(message, None if seconds is None else time.time() + seconds)

    def is_full(self) -> bool:
        return len(self._parcels) >= MOST_BATCHES * self.batch_size or self._bytes >= MOST_BYTES

    def send_now(self, parcel: _Parcel) -> Operation[Pushed]:
        """By itself, apart from what waits."""
        self._check_open()
        ids = yield self._engine.verbs.send_many(self._queue, [parcel.addressed()], {})
        parcel.pushed.set_result(ids[0])
        return parcel.pushed

    def post(self, parcel: _Parcel) -> Pushed:
        """Adds it to those that wait."""
        with self._changed:
            self._check_open()
            if not self._parcels:
                self._due_at = time.monotonic() + self._linger
            self._parcels.append(parcel)
            self._bytes += len(parcel.message.payload)
            if self._sender is None:
                self._sender = threading.Thread(target=self._keep_sending, name="rowq-producer", daemon=True)
                self._sender.start()
            if len(self._parcels) in (1, self.batch_size):
                self._changed.notify_all()
        return parcel.pushed

    def _end_if_empty(self) -> None:
        with self._changed:
            self._is_closed = not self._parcels
            self._changed.notify_all()
        if self._is_closed and self._sender is not None:
            self._sender.join()

    def _check_open(self) -> None:
        if self._is_closed:
            raise BrokerClosed("this producer is closed: create a new one")

    def _keep_sending(self) -> None:
        """Sends what is due; retries what fails, at growing intervals."""
        patience = Patience()
        while self._wait_until_due():
            try:
                with self._sending:
                    self._send()
                patience.reset()
            except Exception as error:  # whatever it is, waiting messages are kept
                if patience.failures == 0:
                    _log.warning("messages to %s are waiting, since they cannot be sent now: %s", self._queue, error)
                with self._changed:
                    self._due_at = time.monotonic() + patience.pause()
                    self._changed.wait_for(lambda: self._is_closed, self._due_at - time.monotonic())

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._is_closed:
                left = self._due_at - time.monotonic()
                if len(self._parcels) >= self.batch_size or (self._parcels and left <= 0):
                    return True
                self._changed.wait(left if self._parcels else None)
            return False

    def send_all(self) -> None:
        with self._sending:
            while self._parcels:
                self._send()

    def _send(self) -> None:
        """One batch: raises temporary errors, and keeps the messages for later."""
        with self._changed:
            batch = list(islice(self._parcels, self.batch_size))
        if batch:
            self._send_or_settle(batch)

    def _send_or_settle(self, batch: list[_Parcel]) -> None:
        try:
            self._send_these(batch)
        except (InvalidArgument, IdTaken) as error:
            if len(batch) == 1:
                self._settle(batch, error)
                return
            half = len(batch) // 2  # none was sent, and one of them is to blame
            self._send_or_settle(batch[:half])
            self._send_or_settle(batch[half:])
        except (BrokerClosed, OutcomeUnknown) as error:
            self._settle(batch, error)

    def _send_these(self, batch: list[_Parcel]) -> None:
        messages = [parcel.addressed() for parcel in batch]
        self._settle(batch, self._engine.driver.drive(self._engine.verbs.send_many(self._queue, messages, {})))

    def _settle(self, batch: list[_Parcel], answer: list[str] | RowqError) -> None:
        """They are the first in line: only the sender settles."""
        with self._changed:
            for parcel in batch:
                self._parcels.popleft()
                self._bytes -= len(parcel.message.payload)
            self._due_at = time.monotonic() + self._linger
            if isinstance(answer, RowqError):
                self._refused = self._refused or answer
        if isinstance(answer, RowqError):
            _log.warning("%s messages to %s were refused: %s", len(batch), self._queue, answer)
            for parcel in batch:
                parcel.pushed.set_exception(answer)
        else:
            for parcel, id in zip(batch, answer, strict=True):
                parcel.pushed.set_result(id)


def _seconds(timeout: Duration | None) -> float | None:
    """As any future takes it: a negative timeout has expired."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def _to_seconds(deadline: Duration | datetime | None) -> float | None:
    """From now; a moment needs a timezone."""
    if deadline is None:
        return None
    if not isinstance(deadline, datetime):
        return to_ms(deadline, "deadline", least=1) / 1000
    if deadline.tzinfo is None:
        raise InvalidArgument("a deadline that is a moment needs a time zone: datetime(…, tzinfo=UTC)")
    return to_ms(deadline.timestamp() - time.time(), "deadline", least=1) / 1000
