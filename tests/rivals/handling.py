"""A process of threads that receive, and ack what they get or hand it back, and say what they held and from when to when.

python -m tests.rivals.handling URL NAME THREADS SHARE      SHARE: how many of 100 deliveries are handed back
"""

from __future__ import annotations

import random
import sys
import threading
import time

import rowq
from tests.rivals.process import listen, run_threads, say

LEASE = 120


def handle(broker: rowq.Broker, name: str, share: int, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        deliveries = broker.receive("q", max=choose.choice((1, 1, 3, 10)), wait=0.2, lease=LEASE)
        got_at = time.monotonic()
        for delivery in deliveries:
            is_done = choose.randrange(100) >= share
            say("held", delivery.id, delivery.key, delivery.group, delivery.payload, is_done, got_at, time.monotonic())
            try:
                broker.ack(delivery) if is_done else broker.nack(delivery, delay=0, counts=choose.random() < 0.5)
            except rowq.LeaseLost:
                say("lost", delivery.id)


def main(url: str, name: str, threads: int, share: int) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=handle, args=(broker, f"{name}-{thread}", share, stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
