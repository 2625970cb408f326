"""What tests must look at inside a broker: the lines in which its calls stand."""

from __future__ import annotations

from rowq.engine.engine import Engine
from rowq.engine.executor_pool import Lanes
from rowq.engine.group_commit import Fusion
from rowq.store.call import Receive


def lines_of(engine: Engine) -> list[Fusion]:
    """One where the database has one writer, else some for each kind of call and one for those that wait long."""
    return engine._fusion._all if isinstance(engine._fusion, Lanes) else [engine._fusion]


def are_receives_under_way(engine: Engine) -> bool:
    """Those of an event loop: some were taken up, and none waits for its turn."""
    fusion = engine._fusion
    if isinstance(fusion, Lanes) and Receive in fusion._airways:
        routes = fusion._airways[Receive]._routes.values()
        return any(route._flight for route in routes) and not any(route._line for route in routes)
    lines = fusion._fast[Receive] if isinstance(fusion, Lanes) else [fusion]
    return any(line._worker for line in lines) and not any(line._line for line in lines)
