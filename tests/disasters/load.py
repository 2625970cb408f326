"""A load of several processes that write down all they were answered, and what must be true of it after whatever has happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import rowq
from tests.rivals.draining import drain_all
from tests.rivals.process import Rival, Start
from tests.support.patience import eventually
from tests.support.tables import faults_of

PROGRESS = 15
"""So many more calls of each kind, in each process, are work that goes on."""


class Load:
    def __init__(self, start: Start, url: str, processes: int = 2) -> None:
        self._url = url
        self._rivals: list[Rival] = [start("working", url, f"worker-{number}") for number in range(processes)]

    def await_progress(self, within: float = 60) -> None:
        """Every process sends, and every process acks, by itself."""
        goals = [(rival, word, len(rival.said(word)) + PROGRESS) for rival in self._rivals for word in ("sent", "acked")]
        eventually(lambda: all(len(rival.said(word)) >= goal for rival, word, goal in goals), within)

    def finish(self) -> None:
        for rival in self._rivals:
            rival.finish()

    def said(self, word: str) -> list[list[Any]]:
        return [line for rival in self._rivals for line in rival.said(word)]

    def failures(self) -> Counter[str]:
        """How often callers heard of which error."""
        return Counter(code for _, code, *_ in self.said("failed"))

    def check(self, url: str | None = None) -> None:
        """Nothing that was answered is lost, nothing that was acked comes back, nothing is there twice or in part. `url`: the way to
        the tables, where it is another than that of the load."""
        with rowq.connect(self._url) as broker:
            drained = drain_all(broker)
        sent = {id for (ids,) in self.said("sent") for id in ids}
        acked = {id: attempt for (acks,) in self.said("acked") for id, attempt in acks}
        maybe_acked = {id for (ids,) in self.said("acking") for id in ids} - acked.keys()
        got = [(id, attempt) for id, attempt, *_ in self.said("got")] + [(delivery.id, delivery.attempt) for delivery in drained]
        assert sent, "nothing was sent"
        assert acked, "nothing was acked"
        assert sent - {id for id, _ in got} - maybe_acked == set(), "answered, and gone"
        assert [(id, attempt) for id, attempt in got if attempt > acked.get(id, attempt)] == [], "acked, and delivered again"
        assert {delivery.id for delivery in drained} & acked.keys() == set(), "acked, and still there"
        assert max(Counter(got).values()) == 1, "two held the same delivery"
        self._check_batches(drained)
        assert faults_of(url or self._url) == {}

    def _check_batches(self, drained: list[rowq.Delivery]) -> None:
        found: defaultdict[tuple[str, int], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for id, _, batch, size, place in self.said("got"):
            found[batch, size][place].add(id)
        for delivery in drained:
            found[delivery.payload["batch"], delivery.payload["of"]][delivery.payload["place"]].add(delivery.id)
        assert [batch for (batch, size), places in found.items() if places.keys() != set(range(size))] == [], "a batch in part"
        assert [batch for (batch, _), places in found.items() if any(len(ids) > 1 for ids in places.values())] == [], "sent twice"
