"""Event streams with several workers: an ack may reach a worker other than the one that holds the stream, and is passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from rowq.ids import Receipt
from rowq.model.message import Outcome
from rowq.server.event_streams import EventStreams, InFlight
from rowq.server.worker_state import WorkerState

MOST_AT_ONCE = 500
"""Receipts in one datagram, so that it fits on every system."""

_Parcel = tuple[list[Receipt], dict[int, int] | None]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Parcel).decode


class SharedEventStreams(EventStreams):
    """The streams of one worker. A datagram is a hint: if one is lost, the stream checks the database within a second."""

    def __init__(self, worker_state: WorkerState, worker: int) -> None:
        super().__init__()
        self._worker_state = worker_state
        self._worker = worker
        self.inbox = worker_state.boxes[worker].inbox

    def __bool__(self) -> bool:
        """Whether any worker has a stream that needs to know of settlements."""
        return bool(self._holders) or bool(self._worker_state.others_with_streams(self._worker))

    def open(self, bound: int) -> InFlight:
        self._worker_state.count_streams(self._worker, 1)
        return _CountedStream(bound, self._holders, lambda: self._worker_state.count_streams(self._worker, -1))

    def learn(self, receipts: Iterable[Receipt], outcomes: Iterable[Outcome], extended: Mapping[int, int] | None) -> None:
        receipts, outcomes = list(receipts), list(outcomes)
        settled = [receipt for receipt, outcome in zip(receipts, outcomes, strict=True) if outcome is Outcome.DONE]
        unknown = [(seq, token) for seq, token in settled if seq not in self._holders]
        super().learn(receipts, outcomes, extended)
        for start in range(0, len(unknown), MOST_AT_ONCE):
            self._pass_on(unknown[start : start + MOST_AT_ONCE], extended)

    def hear(self) -> None:
        """Reads what other workers have passed on."""
        with suppress(BlockingIOError):
            while True:
                receipts, extended = _decode(self.inbox.recv(1 << 16))
                super().learn(receipts, [Outcome.DONE] * len(receipts), extended)

    def _pass_on(self, receipts: list[Receipt], extended: Mapping[int, int] | None) -> None:
        ends = None if extended is None else {seq: extended[seq] for seq, _ in receipts if seq in extended}
        parcel = _encode((receipts, ends))
        for other in self._worker_state.others_with_streams(self._worker):
            with suppress(OSError):  # its socket buffer is full
                self._worker_state.boxes[other].outbox.send(parcel)


class _CountedStream(InFlight):
    def __init__(self, bound: int, holders: dict[int, InFlight], on_close: Callable[[], None]) -> None:
        super().__init__(bound, holders)
        self._on_close = on_close

    def close(self) -> None:
        super().close()
        self._on_close()
