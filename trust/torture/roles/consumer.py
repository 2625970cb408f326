"""Receives messages, and says of them what can be said: at once, too late, twice, with a receipt that was made up, or never."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from typing import NamedTuple

from trust.torture.queues import LEASES
from trust.torture.ways.hands import Caller, Hands, Parcel

MOST = (1, 1, 1, 1, 2, 3, 10)
WAIT = 0.3
KEPT = 200
_VERDICTS = {"ack": 76, "nack": 9, "release": 4, "reject": 4, "reschedule": 3, "extend": 4}
_FATES = {"at once": 88, "late": 4, "never": 4, "twice": 2, "forged": 2}

Reference = tuple[int, int]
"""Which delivery: the number of the receive, and the place in its answer."""


class Held(NamedTuple):
    reference: Reference
    parcel: Parcel


class Consumer:
    """The hands of one thread, and what it means to settle later than it may."""

    def __init__(self, hands: Hands, caller: Caller, choose: random.Random, name: str, drains: threading.Event) -> None:
        """`drains`: the run is over, and what is left is to be acked and nothing else."""
        self._hands = hands
        self._drains = drains
        self._caller = caller
        self._choose = choose
        self._name = name
        self._late: deque[tuple[float, list[Held]]] = deque()
        self._weights = [_VERDICTS[verdict] for verdict in hands.verdicts]

    def consume(self) -> None:
        """One receive, and what follows from it."""
        if self._late and (self._drains.is_set() or self._late[0][0] <= time.monotonic()):
            self._settle(self._verdict(), self._late.popleft()[1])
        held = self._receive()
        if held and self._drains.is_set():
            self._settle("ack", held)
            return
        while held:
            size = self._choose.choice((1, len(held)))
            self._treat(held[:size])
            held = held[size:]

    def _receive(self) -> list[Held]:
        queue, most = self._choose.choice(self._hands.queues), 100 if self._drains.is_set() else self._choose.choice(MOST)
        lease = self._choose.choice(LEASES)
        tag = f"{self._name}.{self._caller.page.call + 1}"
        parcels = self._caller.call(
            "receive",
            [queue, most, lease * 1000],
            lambda: self._hands.receive(queue, most, WAIT, lease, tag),
            lambda parcels: [[[one.message, one.attempt, one.until, one.name, one.group, one.token] for one in parcels]],
        )
        call = self._caller.page.call
        return [Held((call, place), parcel) for place, parcel in enumerate(parcels or [])]

    def _treat(self, held: list[Held]) -> None:
        fate = self._choose.choices(list(_FATES), list(_FATES.values()))[0]
        if fate == "late":
            if len(self._late) < KEPT:
                self._late.append((time.monotonic() + LEASES[-1] + self._choose.choice((0.2, 3)), held))
            return
        if fate == "never":
            return
        if fate == "forged":
            self._forge(held[0].parcel)
        verdict = self._verdict()
        self._settle(verdict, held)
        if fate == "twice":
            self._settle(verdict, held)

    def _verdict(self) -> str:
        return self._choose.choices(self._hands.verdicts, self._weights)[0]

    def _settle(self, verdict: str, held: list[Held]) -> None:
        if verdict == "extend":
            self._extend(held[0])
            verdict = "ack"
        verb = verdict if len(held) == 1 else f"{verdict}_many"
        receipts = [one.parcel.receipt for one in held]
        self._caller.call(verb, [[one.reference for one in held]], lambda: self._hands.settle(verb, receipts), lambda outcomes: [outcomes])

    def _extend(self, held: Held) -> None:
        lease = self._choose.choice(LEASES)
        self._caller.call(
            "extend", [[held.reference]], lambda: self._hands.extend(held.parcel.receipt, lease), lambda until: [["done"], until]
        )

    def _forge(self, parcel: Parcel) -> None:
        """The receipt of this message, if another had drawn its lease."""
        digit = self._choose.choice("01234567".replace(parcel.receipt[-1], ""))
        made_up = parcel.receipt[:-1] + digit
        self._caller.call("ack", [[parcel.message]], lambda: self._hands.settle("ack", [made_up]), lambda outcomes: [outcomes])
