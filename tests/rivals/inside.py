"""What tests must look at inside a broker: the lines in which its calls stand."""

from __future__ import annotations

from rowq.engine.engine import Engine
from rowq.engine.executor_pool import ExecutorPool
from rowq.engine.group_commit import GroupCommit
from rowq.store.call import Receive


def lines_of(engine: Engine) -> list[GroupCommit]:
    """One where the database has one writer, else some for each kind of call and one for those that wait long."""
    return engine._group_commit._all if isinstance(engine._group_commit, ExecutorPool) else [engine._group_commit]


def are_receives_under_way(engine: Engine) -> bool:
    """Those of an event loop: some were taken up, and none waits for its turn."""
    group_commit = engine._group_commit
    if isinstance(group_commit, ExecutorPool) and Receive in group_commit._async_group_commits:
        routes = group_commit._async_group_commits[Receive]._routes.values()
        return any(route._bridge for route in routes) and not any(route._line.waiting for route in routes)
    lines = group_commit._fast[Receive] if isinstance(group_commit, ExecutorPool) else [group_commit]
    return any(line._worker for line in lines) and not any(line._line.waiting for line in lines)
