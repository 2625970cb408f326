"""One that takes part: a process of threads that call verbs until it is told to end (SIGTERM), or is killed.

    python -m trust.torture.participant ROLE WAY URL NAME SEED LOGBOOK CLOCK

    ROLE     producer, consumer or operator
    WAY      library: URL is that of the database · http: URL is that of a server · sql: URL is that of the database, and verbs are part
             of the caller's own transactions (`within`, and on PostgreSQL PEQ's procedures too); an operator counts rows
    NAME     of its own in the run; also the file name of LOGBOOK, without its suffix
    SEED     a number
    LOGBOOK  a path that ends in .logbook
    CLOCK    a file of 8 bytes, see tests/support/astray.py

On SIGTERM it finishes its calls, closes and exits 0. On SIGUSR1 a consumer does nothing but ack, from then on. It writes its first line
once it is connected, and tries to connect until it is.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.support.astray import go_astray
from trust.torture.logbook import Logbook

if TYPE_CHECKING:
    import rowq
    from trust.torture.ways.hands import Hands

THREADS = {
    "library": {"producer": 16, "consumer": 24, "operator": 1},
    "http": {"producer": 12, "consumer": 16, "operator": 1},
    "sql": {"producer": 2, "consumer": 3, "operator": 1},
}
"""Calls that arrive together share a transaction, so many callers cost little more than few; in SQL each pays for one of its own."""


class Orders:
    """What a participant is told from outside."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.drain = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.stop.set())
        signal.signal(signal.SIGUSR1, lambda *_: self.drain.set())


def main(role: str, way: str, url: str, name: str, seed: str, logbook: Path, orders: Orders) -> None:
    # Only now: what rowq takes from the module `time` must be what has gone astray.
    from trust.torture.ways.broker import connect

    broker = connect(url, name, orders.stop)
    if broker is None:
        return
    with broker:
        book = Logbook(logbook, role, way)
        scripts = [_script(role, way, url, name, number, seed, broker, book, orders) for number in range(THREADS[way][role])]
        threads = [threading.Thread(target=_repeat, args=(script, orders.stop)) for script in scripts]
        for thread in threads:
            thread.start()
        # A signal is heard by the main thread, and only while it is in Python.
        while any(thread.is_alive() for thread in threads):
            orders.stop.wait(0.1)
            for thread in threads:
                thread.join(0.1)


def _script(
    role: str, way: str, url: str, name: str, number: int, seed: str, broker: rowq.Broker, book: Logbook, orders: Orders
) -> Callable[[], object]:
    """What one thread does over and over."""
    from trust.torture.roles.accountant import count
    from trust.torture.roles.consumer import Consumer
    from trust.torture.roles.operator import Operator
    from trust.torture.roles.producer import produce
    from trust.torture.ways.hands import Caller
    from trust.torture.ways.own import Own

    choose, caller, me = Random(f"{seed}-{name}-{number}"), Caller(book.page(number), orders.stop), f"{name}.{number}"
    if role == "operator" and way == "sql":
        own = Own(url, patience=60)
        return lambda: count(own, caller)
    if role == "operator":
        return Operator(broker, caller, choose).operate
    hands = _hands(way, url, broker, orders.stop, number, choose)
    if role == "producer":
        return lambda: produce(hands, caller, choose, me)
    return Consumer(hands, caller, choose, me, orders.drain).consume


def _hands(way: str, url: str, broker: rowq.Broker, stop: threading.Event, number: int, choose: Random) -> Hands:
    from trust.torture.ways.broker import BrokerHands
    from trust.torture.ways.peq import PeqHands
    from trust.torture.ways.within import WithinHands

    if way != "sql":
        return BrokerHands(broker)
    if url.startswith("postgresql://") and number % 2 == 0:
        return PeqHands(url, choose, stop.wait)
    return WithinHands(broker, url, choose)


def _repeat(act: Callable[[], object], stop: threading.Event) -> None:
    while not stop.is_set():
        act()


if __name__ == "__main__":
    ordered = Orders()
    _, role, way, url, name, seed, logbook, clock = sys.argv
    go_astray(Path(clock))
    main(role, way, url, name, seed, Path(logbook), ordered)
