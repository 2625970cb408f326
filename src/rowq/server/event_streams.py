"""Which event stream holds which unsettled deliveries, so that a stream at its bound continues as soon as one is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from rowq.ids import Receipt
from rowq.model.message import Outcome


class EventStreams:
    """All event streams of the server, by the messages that are in flight on them."""

    def __init__(self) -> None:
        self._holders: dict[int, InFlight] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def open(self, bound: int) -> InFlight:
        return InFlight(bound, self._holders)

    def learn(self, receipts: Iterable[Receipt], outcomes: Iterable[Outcome], extended: Mapping[int, int] | None) -> None:
        """Takes note of settled or extended deliveries; `extended` maps them to the new ends of their leases, None if they were settled."""
        for (seq, token), outcome in zip(receipts, outcomes, strict=True):
            stream = self._holders.get(seq)
            if stream is None or outcome is not Outcome.DONE:
                continue
            if extended is None:
                stream.free(seq, token)
            elif seq in extended:
                stream.extend(seq, token, extended[seq])


class InFlight:
    """The unacknowledged deliveries of one stream."""

    def __init__(self, bound: int, holders: dict[int, InFlight]) -> None:
        self.bound = bound
        self.freed = asyncio.Event()
        self._holders = holders
        self._held: dict[int, tuple[int, int]] = {}

    @property
    def room(self) -> int:
        return self.bound - len(self._held)

    @property
    def seqs(self) -> list[int]:
        return list(self._held)

    def hold(self, seq: int, token: int, lease_until: int) -> None:
        self._held[seq] = (token, lease_until)
        self._holders[seq] = self

    def free(self, seq: int, token: int) -> None:
        held = self._held.get(seq)
        if held is not None and held[0] == token:
            self._drop(seq)
            self.freed.set()

    def extend(self, seq: int, token: int, lease_until: int) -> None:
        held = self._held.get(seq)
        if held is not None and held[0] == token:
            self._held[seq] = (token, lease_until)

    def forget_ended(self, now: int) -> None:
        """Frees the deliveries whose lease has run out."""
        for seq, (token, lease_until) in list(self._held.items()):
            if lease_until <= now:
                self.free(seq, token)

    def keep_only(self, leases: Mapping[int, int]) -> None:
        """Frees the deliveries that the database no longer has as leased: another process may have settled them."""
        for seq, (token, _) in list(self._held.items()):
            if leases.get(seq) != token:
                self.free(seq, token)

    def close(self) -> None:
        for seq in self.seqs:
            self._drop(seq)

    def _drop(self, seq: int) -> None:
        del self._held[seq]
        if self._holders.get(seq) is self:
            del self._holders[seq]
