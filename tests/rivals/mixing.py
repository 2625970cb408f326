"""A process of threads that do everything to messages with keys and groups, until it is killed.

python -m tests.rivals.mixing URL NAME THREADS LEASE
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import rowq
from tests.rivals.process import listen, run_threads, say

SETTLES: list[Callable[[rowq.Broker, rowq.Delivery], None]] = [
    lambda broker, delivery: broker.ack(delivery),
    lambda broker, delivery: broker.ack(delivery),
    lambda broker, delivery: broker.nack(delivery, delay=0),
    lambda broker, delivery: broker.nack(delivery, counts=False),
    lambda broker, delivery: broker.nack(delivery, delay=0.05),
    lambda broker, delivery: broker.reject(delivery),
    lambda broker, delivery: None,  # forgotten: its lease runs out
]


def mix(broker: rowq.Broker, name: str, lease: float, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        if choose.random() < 0.5:
            broker.send_many("q", [draft(choose) for _ in range(choose.choice((1, 1, 5)))])
        else:
            for delivery in broker.receive("q", max=choose.choice((1, 5)), lease=lease):
                with suppress(rowq.LeaseLost):
                    choose.choice(SETTLES)(broker, delivery)
        say("done")


def draft(choose: random.Random) -> rowq.Draft:
    key = choose.choice((None, *(f"key-{number}" for number in range(6))))
    group = choose.choice((None, *(f"group-{number}" for number in range(4))))
    return rowq.Draft(choose.random(), key=key, group=group, delay=choose.choice((0, 0, 0.02)))


def main(url: str, name: str, threads: int, lease: float) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=mix, args=(broker, f"{name}-{thread}", lease, stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
