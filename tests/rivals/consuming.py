"""A process of threads that receive and ack until it is told to end, and say what they got, what they ack, and what was acked.

python -m tests.rivals.consuming URL NAME THREADS LEASE
"""

from __future__ import annotations

import random
import sys
import threading

import rowq
from tests.rivals.process import listen, run_threads, say


def consume(broker: rowq.Broker, name: str, lease: float, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        deliveries = broker.receive("q", max=choose.choice((1, 1, 3, 10)), wait=0.2, lease=lease)
        for delivery in deliveries:
            say("got", delivery.id, delivery.attempt)
        together = choose.random() < 0.5
        for some in [deliveries] if together else [[delivery] for delivery in deliveries]:
            if some:
                ack(broker, some)


def ack(broker: rowq.Broker, deliveries: list[rowq.Delivery]) -> None:
    say("acking", [delivery.id for delivery in deliveries])
    outcomes = broker.ack_many(deliveries)
    done = [delivery for delivery, outcome in zip(deliveries, outcomes, strict=True) if outcome is rowq.Outcome.DONE]
    say("acked", [(delivery.id, delivery.attempt) for delivery in done])


def main(url: str, name: str, threads: int, lease: float) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=consume, args=(broker, f"{name}-{thread}", lease, stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
