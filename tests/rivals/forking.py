"""A process that forks while it has a broker, and says what parent and children see of it.

python -m tests.rivals.forking URL in_use | between_locks | connecting
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import closing

import rowq
from tests.rivals.inside import lines_of
from tests.rivals.process import say

FORKS = 12
PATIENCE = 60


def fork(child: Callable[[], None]) -> int:
    """A child that dies if it does not get through, and never returns into the code of its parent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of threads, of which every broker has one
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(PATIENCE)
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def join(pid: int) -> None:
    say("child ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def use(broker: rowq.Broker, receipt: str) -> None:
    """What a child may try with the broker of its parent."""
    verbs: dict[str, Callable[[], object]] = {
        "send": lambda: broker.send("q", "from a child"),
        "receive": lambda: broker.receive("q"),
        "ack": lambda: broker.ack(receipt),
        "stats": lambda: broker.stats("q"),
        "walk": lambda: next(broker.walk("q"), None),
        "configure": lambda: broker.configure("q", max_attempts=9),
        "maintain": broker.maintain,
    }
    for verb, call in verbs.items():
        try:
            call()
        except rowq.RowqError as error:
            say("child", verb, error.code)
        else:
            say("child", verb, "done")


def in_use(url: str) -> None:
    """Forks while threads send."""
    with rowq.connect(url) as broker:
        broker.send("q", "held")
        held = broker.receive("q", lease=600)[0]
        stop = threading.Event()

        def send() -> None:
            while not stop.is_set():
                say("sent", broker.send("q", "from a thread"))

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(FORKS):
            join(fork(lambda: use(broker, held.receipt)))
            say("sent", broker.send("q", "from the parent"))
        stop.set()
        for thread in threads:
            thread.join()
        broker.ack(held)


def between_locks(url: str) -> None:
    """Forks at the moment that another thread, which the child will not have, holds a lock of the broker."""
    with rowq.connect(url, maintenance=False) as broker:
        children = []
        for line in lines_of(broker._engine):
            with line._line.mutex:
                children.append(fork(lambda: use(broker, "no receipt")))
        with broker._engine._room._changed:
            children.append(fork(lambda: use(broker, "no receipt")))
        for child in children:
            join(child)
        say("sent", broker.send("q", "from the parent"))


def connecting(url: str) -> None:
    """The child opens a broker of its own, and goes on with it after the parent has closed the other. It may be refused, too."""
    has_sent, is_closed = os.pipe(), os.pipe()

    def child() -> None:
        try:
            with closing(rowq.connect(url)) as own:
                say("sent", own.send("q", "from the child"))
                os.write(has_sent[1], b".")
                os.read(is_closed[0], 1)
                say("sent", own.send("q", "from the child, after the parent closed"))
        except rowq.RowqError as error:
            say("refused", error.code)
            os.write(has_sent[1], b".")

    with rowq.connect(url) as broker:
        say("sent", broker.send("q", "from the parent"))
        pid = fork(child)
        os.read(has_sent[0], 1)
    os.write(is_closed[1], b".")
    join(pid)


if __name__ == "__main__":
    {"in_use": in_use, "between_locks": between_locks, "connecting": connecting}[sys.argv[2]](sys.argv[1])
