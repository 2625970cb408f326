"""Strikes one fault after another in step with the work, several at a time, and none at what another has just hit."""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from trust.torture.faults import FAULTS, Fault
from trust.torture.logbook import monotonic_us
from trust.torture.scene import Scene

JOURNAL = "faults.txt"
"""In the folder of the run, beside the logbooks."""
_AT_ONCE = 3


class Director:
    def __init__(self, scene: Scene, plan: list[Fault], seed: int) -> None:
        self._scene = scene
        self._plan = plan
        self._choose = random.Random(seed)
        self._places = {place: threading.Lock() for fault in FAULTS for place in fault.hits}
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fault")
        self._under_way: list[Future[None]] = []
        self.struck: Counter[str] = Counter()
        self.failures: list[str] = []
        """Faults that did not do what they are for, each with the reason; this is the harness's own fault, or rowq did not come back."""

    @property
    def done(self) -> int:
        """Faults that are over, whether they did what they are for or not."""
        return self.struck.total() + len(self.failures)

    def keep_up(self, share: float) -> None:
        """Of the plan, so much is due by now; but nobody runs ahead of what is not over yet."""
        due = min(round(min(share, 1) * len(self._plan)), self.done + 2 * _AT_ONCE)
        while len(self._under_way) < due:
            fault, seed = self._plan[len(self._under_way)], self._choose.randrange(1 << 31)
            self._under_way.append(self._workers.submit(self._strike, fault, seed))

    def finish(self) -> None:
        """What is under way comes to its end."""
        self._workers.shutdown(cancel_futures=True)

    def look_for_ended(self) -> list[str]:
        """Who has ended though nobody killed them; another comes in their place."""
        found = []
        with self._at_rest("members") as free:
            for member in self._scene.cast.members if free else []:
                if member.actor.has_ended:
                    found.append(f"{member.actor.name} ended by itself: {member.actor.complaint[-2000:]}")
                    self._scene.cast.replace(member)
        with self._at_rest("servers") as free:
            for server in self._scene.servers if free else []:
                if server.actor.has_ended:
                    found.append(f"{server.name} ended by itself: {server.actor.complaint[-2000:]}")
                    server.start()
        return found

    def _strike(self, fault: Fault, seed: int) -> None:
        try:
            with self._hitting(fault.hits):
                self._write_down("begins", fault)
                fault.strike(self._scene, random.Random(seed))
                self._write_down("is over", fault)
        except Exception:  # whatever it is, the report must have it
            self.failures.append(f"fault {fault.name!r} failed: {traceback.format_exc()}")
        else:
            self.struck[fault.name] += 1

    def _write_down(self, what: str, fault: Fault) -> None:
        """By the clock of the logbooks."""
        with (self._scene.folder / JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(f"{monotonic_us()} {fault.name} {what}\n")

    @contextmanager
    def _hitting(self, places: Iterable[str]) -> Iterator[None]:
        with ExitStack() as stack:
            for place in sorted(places):
                stack.enter_context(self._places[place])
            yield

    @contextmanager
    def _at_rest(self, place: str) -> Iterator[bool]:
        """Whether nobody is hitting it just now; if so, nobody begins to."""
        lock = self._places[place]
        free = lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                lock.release()
