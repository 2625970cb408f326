"""By the caller's own transactions: what `within` sends and settles holds if, and only if, the caller commits. Mostly it does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import rowq
from trust.torture.queues import QUEUES
from trust.torture.ways.broker import VERDICTS, BrokerHands, settle_by
from trust.torture.ways.hands import Parcel, Undone
from trust.torture.ways.own import Own

ROLLED_BACK = 0.15
"""How often the caller thinks better of it."""
T = TypeVar("T")


class WithinHands:
    queues = tuple(QUEUES)
    verdicts = VERDICTS
    tells_ids = True

    def __init__(self, broker: rowq.Broker, url: str, choose: random.Random) -> None:
        self._broker = broker
        self._outside = BrokerHands(broker)
        self._own = Own(url)
        self._choose = choose

    def send(self, queue: str, drafts: list[rowq.Draft]) -> list[str]:
        return self._transact(lambda verbs: verbs.send_many(queue, drafts))

    def receive(self, queue: str, most: int, wait: float, lease: float, tag: str) -> list[Parcel]:
        """There is no receive within: whoever rolls back would have seen the messages all the same."""
        return self._outside.receive(queue, most, wait, lease, tag)

    def settle(self, verb: str, receipts: list[str]) -> list[str]:
        return self._transact(lambda verbs: settle_by(verbs, verb, receipts))

    def extend(self, receipt: str, lease: float) -> int:
        return self._outside.extend(receipt, lease)

    def _transact(self, work: Callable[[rowq.Within], T]) -> T:
        connection = self._own.begin()
        try:
            answer = work(self._broker.within(connection))
        except BaseException:
            self._own.roll_back()
            raise
        if self._choose.random() < ROLLED_BACK:
            self._own.roll_back()
            raise Undone
        self._own.commit()
        return answer
