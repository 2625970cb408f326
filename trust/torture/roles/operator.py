"""Looks at everything, and puts its hands in: redrives, deletes, purges, pauses. Whatever it takes away is written down before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import rowq
from trust.torture.queues import QUEUES
from trust.torture.ways.hands import Caller

PAUSED = 0.3
T = TypeVar("T")
STATES = ("ready", "scheduled", "blocked", "leased", "dead")
_ACTIONS = {"stats": 30, "look": 30, "redrive": 12, "delete": 8, "purge": 1, "pause": 1, "resume": 4, "maintain": 6, "all": 4, "letters": 4}


class Operator:
    def __init__(self, broker: rowq.Broker, caller: Caller, choose: random.Random) -> None:
        self._broker = broker
        self._caller = caller
        self._choose = choose

    def operate(self) -> None:
        """One action, and a while of looking on."""
        queue = self._choose.choice(tuple(QUEUES))
        action = self._choose.choices(list(_ACTIONS), list(_ACTIONS.values()))[0]
        actions: dict[str, Callable[[], object]] = {
            "stats": lambda: self._call("stats", [queue], lambda: self._broker.stats(queue)),
            "look": lambda: self._look(queue),
            "redrive": lambda: self._call("redrive", [queue], lambda: self._broker.redrive(queue, limit=50)),
            "delete": lambda: self._delete(queue),
            "purge": lambda: self._call("purge", ["brief"], lambda: self._broker.purge("brief")),
            "pause": lambda: self._pause(queue),
            "resume": lambda: self._call("resume", [queue], lambda: self._broker.resume(queue)),
            "maintain": lambda: self._call("maintain", [], self._broker.maintain),
            "all": lambda: self._call("queues", [], self._broker.queues),
            "letters": lambda: self._call("failures", [queue], lambda: self._broker.failures(queue)),
        }
        actions[action]()
        self._caller.stop.wait(self._choose.random() * 0.05)

    def _look(self, queue: str) -> list[rowq.Message]:
        """A page of messages, and the story of one of them."""
        state = self._choose.choice(STATES)
        messages = self._call("browse", [queue], lambda: self._broker.browse(queue, state=state, limit=20)) or []
        if messages:
            id = self._choose.choice(messages).id
            self._call("audit", [id], lambda: self._broker.audit(id))
        return messages

    def _delete(self, queue: str) -> None:
        messages = self._look(queue)
        if messages:
            message = self._choose.choice(messages)
            self._call("delete", [message.id], lambda: self._broker.delete(message.id))

    def _pause(self, queue: str) -> None:
        self._call("pause", [queue], lambda: self._broker.pause(queue))
        self._caller.stop.wait(PAUSED)
        self._call("resume", [queue], lambda: self._broker.resume(queue))

    def _call(self, verb: str, what: list[object], ask: Callable[[], T]) -> T | None:
        return self._caller.call(verb, what, ask, lambda answer: [])
