"""What tests must look at inside a broker: the lines in which its calls stand."""

from __future__ import annotations

from rowq.engine import Engine
from rowq.fusion import Fusion
from rowq.lanes import Lanes
from rowq.store.calls import Receive


def lines_of(engine: Engine) -> list[Fusion]:
    """One where the database has one writer, else some for each kind of call and one for those that wait long."""
    return engine._fusion._all if isinstance(engine._fusion, Lanes) else [engine._fusion]


def receiving_lines(engine: Engine) -> list[Fusion]:
    return engine._fusion._fast[Receive] if isinstance(engine._fusion, Lanes) else [engine._fusion]
