"""A process that sends, receives and acks until it is told to end: lines of audit and history from many transactions at once.

python -m tests.tables.writing URL NAME
"""

from __future__ import annotations

import random
import sys
import threading

import rowq
from tests.rivals.process import listen, run_threads, say


def write(broker: rowq.Broker, name: str, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        broker.send_many("q", range(choose.choice((1, 1, 2, 10, 40))))
        broker.ack_many(broker.receive("q", max=20))
        say("wrote")


def main(url: str, name: str) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url, maintenance=False) as broker:
        run_threads([threading.Thread(target=write, args=(broker, f"{name}-{thread}", stop)) for thread in range(2)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
