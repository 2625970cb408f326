"""Opens a copy from two URLs; and surveys what there is to copy, for a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec

from rowq.connect import open_engine, refuse_server
from rowq.engine.engine import Engine
from rowq.errors import QueueNotFound, StoreUnavailable
from rowq.model.message import Stats
from rowq.model.queue import check_own_name
from rowq.transfer.copy import Copier
from rowq.transfer.route import Transfer


class Survey(msgspec.Struct, frozen=True):
    """What would be copied, and why the target could not be read, if it could not."""

    queues: list[Stats]
    target: str | None


@contextmanager
def open_copier(source: str, target: str, queues: Sequence[str] | None, *, actor: str | None, with_audit: bool = True) -> Iterator[Copier]:
    """All queues, or the named ones. The source must exist; the target is created."""
    _refuse_servers(source, target)
    with closing(open_engine(source, maintenance=False, actor=actor, migrate=False)) as origin:
        chosen = _chosen(origin, queues)
        with closing(open_engine(target, maintenance=False, actor=actor)) as destination:
            passage = Transfer(origin, destination, chosen)
            yield Copier(passage, everything=queues is None, with_audit=with_audit)


def survey(source: str, target: str, queues: Sequence[str] | None) -> Survey:
    """Changes and creates nothing."""
    _refuse_servers(source, target)
    with closing(open_engine(source, maintenance=False, migrate=False)) as origin:
        chosen = _chosen(origin, queues)
        found = [origin.insights.stats(queue) for queue in chosen]
        try:
            with closing(open_engine(target, maintenance=False, migrate=False)) as destination:
                Transfer(origin, destination, chosen).check()
        except StoreUnavailable as error:
            return Survey(found, str(error))
    return Survey(found, None)


def _chosen(source: Engine, queues: Sequence[str] | None) -> list[str]:
    """In order, each once. A queue that does not exist is reported before anything is created."""
    if queues is None:
        chosen = [stats.queue for stats in source.insights.queues()]
        if not chosen:
            raise QueueNotFound("there is no queue at the source: nothing was ever sent to it")
        return chosen
    chosen = sorted({check_own_name(queue) for queue in queues})
    for queue in chosen:
        source.insights.settings(queue)
    return chosen


def _refuse_servers(*urls: str) -> None:
    for url in urls:
        refuse_server(url, "a copy goes from one database to another, and one of these is a server")
