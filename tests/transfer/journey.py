"""A source, a target, and what happens between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

import rowq
from rowq.transfer.copy import Copier, QueueReport, open_copier
from tests.support.database import Database
from tests.support.tables import faults_of


class Journey:
    """Brokers on both sides, closed with the test. They run maintenance only when they are told to."""

    def __init__(self, source: Database, target: Database) -> None:
        self.source_database = source
        self.source_url = source.url
        self.target_url = target.url
        self._open = ExitStack()
        self._target: rowq.Broker | None = None
        self.source = self._connect(source.url)

    @property
    def target(self) -> rowq.Broker:
        """Opened when it is first looked at: a copy makes the tables."""
        if self._target is None:
            self._target = self._connect(self.target_url)
        return self._target

    def copy(self, queues: Sequence[str] | None = None, **options: Any) -> list[QueueReport]:
        return copy(self.source_url, self.target_url, queues, **options)

    @contextmanager
    def begun(self) -> Iterator[Copier]:
        """A copy that has begun and brought nothing yet."""
        with open_copier(self.source_url, self.target_url, None, actor="mover") as copier:
            copier.begin()
            yield copier

    def go_on(self, copier: Copier) -> list[QueueReport]:
        for stage in copier.stages():
            stage.run(lambda done: None)
        return copier.finish()

    def close(self) -> None:
        self._open.close()

    def _connect(self, url: str) -> rowq.Broker:
        return self._open.enter_context(rowq.connect(url, maintenance=False))


def copy(source: str, target: str, queues: Sequence[str] | None = None, **options: Any) -> list[QueueReport]:
    """A whole run, in this process; the target is sound afterwards."""
    reports = copy_in_pieces(source, target, queues, **options)
    assert faults_of(target) == {}
    return reports


def copy_in_pieces(
    source: str, target: str, queues: Sequence[str] | None = None, *, remove: bool = False, patience: float = 0.0, **options: Any
) -> list[QueueReport]:
    with open_copier(source, target, queues, actor="mover", **options) as copier:
        copier.begin(patience)
        for stage in copier.stages():
            stage.run(lambda done: None)
        reports = copier.finish()
        return copier.remove(lambda done: None) if remove else reports


def everything(broker: rowq.Broker, queue: str | None = None) -> dict[str, dict[str, Any]]:
    """Every message by its id, as people see it; cursors are of one database only."""
    found: dict[str, dict[str, Any]] = {}
    for message in broker.walk(queue):
        fields = msgspec.structs.asdict(message)
        del fields["cursor"]
        assert message.id not in found, f"{message.id} is there twice"
        found[message.id] = fields
    return found


def order(broker: rowq.Broker, state: str, queue: str = "q") -> list[str]:
    """The ids of a state in its order."""
    return [message.id for message in broker.browse(queue, state=state, limit=1000)]
