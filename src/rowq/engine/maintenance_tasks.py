"""Sweeps by name: each thing that time makes necessary, listed, and done at once for whoever does not want to wait for upkeep."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from rowq.engine.insights import Insights
from rowq.engine.maintenance import SWEEP_EVERY, TIDY_THOROUGHLY_EVERY, Maintenance
from rowq.engine.operation import Operation, Read, Sleep
from rowq.engine.retention import EVERY as RETIRE_EVERY
from rowq.errors import NotFound
from rowq.model.text import check_text
from rowq.store.dialect import Dialect

_TRIES = 100
_PAUSE = 0.01
_TURN = round(SWEEP_EVERY * 1000)
_RETIRING = round(RETIRE_EVERY * 1000)
_TIDYING = TIDY_THOROUGHLY_EVERY * _TURN


class Sweep(msgspec.Struct, frozen=True):
    """`every_ms`: how often upkeep does it by itself; None where it only happens when somebody asks."""

    name: str
    summary: str
    every_ms: int | None


SWEEPS = (
    Sweep("due", "delayed messages whose time has come may be received", _TURN),
    Sweep("stale", "leases that ran out: the message comes back, or has used up its attempts", _TURN),
    Sweep("expired", "messages at the end of their TTL leave, most of them as dead letters", _TURN),
    Sweep("expired-dlq", "dead letters at the end of dlq_ttl are removed", _RETIRING),
    Sweep("failed", "what has used up its attempts becomes a dead letter: a nack does so at once, a lease that ran out with stale", _TURN),
    Sweep("failed-dlq", "dead letters that have used up theirs are removed, where dlq_exhausted says so; when, see failed", _TURN),
    Sweep("retention", "dead letters, history and audit that were kept for long enough are removed", _RETIRING),
    Sweep("optimize", "the database looks after its statistics and its log", _TIDYING),
    Sweep("depth", "all that is still to be done is counted; metrics do that by themselves", None),
)


class MaintenanceTasks:
    def __init__(self, dialect: Dialect, insights: Insights, upkeep: Maintenance, if_idle: Callable[[Callable[[], bool]], Any]) -> None:
        """`if_idle`: runs what nobody may write beside."""
        self._dialect = dialect
        self._insights = insights
        self._if_idle = if_idle
        self._runs: dict[str, Callable[[], Operation[int]]] = {
            "due": upkeep.take_due,
            "stale": upkeep.take_lease_expired,
            "expired": upkeep.take_ended,
            "expired-dlq": upkeep.retire_dead,
            "failed": upkeep.take_lease_expired,
            "failed-dlq": upkeep.take_lease_expired,
            "retention": upkeep.retire,
            "optimize": self._optimize,
            "depth": self._depth,
        }

    def run(self, name: str) -> Operation[int]:
        """How many messages it was about; of optimize 1, or 0 where others wrote all the time."""
        if check_text(name, "the name of a sweep") not in self._runs:
            raise NotFound(f"there is no sweep {name!r}; sweeps are: {', '.join(self._runs)}")
        return self._runs[name]()

    def _optimize(self) -> Operation[int]:
        for _ in range(_TRIES):
            if (yield Read(self._try_to_tidy)):
                return 1
            yield Sleep(_PAUSE)
        return 0

    def _try_to_tidy(self) -> bool:
        """In a thread of its own: an interrupted one would keep the writer's place for good."""
        with ThreadPoolExecutor(1, thread_name_prefix="rowq-optimize") as thread:
            return bool(thread.submit(self._if_idle, self._tidy).result())

    def _tidy(self) -> bool:
        self._dialect.tidy(thoroughly=True)
        return True

    def _depth(self) -> Operation[int]:
        depth: int = yield Read(lambda: sum(stats.depth for stats in self._insights.queues()))
        return depth
