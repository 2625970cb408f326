"""A process of threads that do what operators do, and let messages expire, while others work on the same queue.

python -m tests.rivals.meddling URL NAME THREADS
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import rowq
from tests.rivals.process import listen, run_threads, say

STATES = ["ready", "scheduled", "blocked", "leased", "dead"]


def redrive(broker: rowq.Broker, choose: random.Random) -> int:
    return broker.redrive("q", limit=choose.choice((None, 3)))


def purge(broker: rowq.Broker, choose: random.Random) -> int:
    return broker.purge("q", states=[choose.choice(STATES)])


def delete(broker: rowq.Broker, choose: random.Random) -> int:
    deleted = 0
    for message in broker.browse("q", state=choose.choice(STATES), limit=3):
        with suppress(rowq.MessageNotFound):  # it was acked, or purged, since we looked
            broker.delete(message.id)
            deleted += 1
    return deleted


def expire(broker: rowq.Broker, choose: random.Random) -> int:
    """Sends what lives for a moment only; maintenance, receives and senders under its key meet it when it is over."""
    drafts = [
        rowq.Draft(None, key=choose.choice((None, "key-0", "key-1")), group=choose.choice((None, "group-0", "group-1")), ttl=0.05)
        for _ in range(3)
    ]
    return len(broker.send_many("q", drafts))


def maintain(broker: rowq.Broker, choose: random.Random) -> int:
    return broker.maintain().expired


def work_on_dead_letters(broker: rowq.Broker, choose: random.Random) -> int:
    deliveries = broker.receive("q.dlq", max=5, lease=0.2)
    for delivery in deliveries:
        settle = choose.choice((broker.ack, broker.nack, broker.reject))
        with suppress(rowq.LeaseLost):
            settle(delivery)
    return len(deliveries)


def configure(broker: rowq.Broker, choose: random.Random) -> int:
    broker.configure("q", max_attempts=choose.choice((4, 1000)))
    return 1


DEEDS: list[Callable[[rowq.Broker, random.Random], int]] = [
    redrive,
    delete,
    expire,
    expire,
    maintain,
    work_on_dead_letters,
    configure,
    purge,
]


def meddle(broker: rowq.Broker, name: str, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        deed = choose.choice(DEEDS)
        say("did", deed.__name__, deed(broker, choose))


def main(url: str, name: str, threads: int) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=meddle, args=(broker, f"{name}-{thread}", stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
