"""A process with one consumer, which begins when it is told to, and says what it did.

python -m tests.worker.consuming URL partitioned|competing BATCH LEASE BEAT DEAD_AFTER [DELIVERY]
"""

from __future__ import annotations

import logging
import os
import sys
import threading

import rowq
from rowq.model.queue import DeliveryMode
from tests.rivals.process import listen, say
from tests.worker.handling import registered


def main(url: str, way: str, batch: int, lease: float, beat: float, dead_after: float, delivery: DeliveryMode = "at_least_once") -> None:
    logging.getLogger("rowq").addHandler(logging.NullHandler())
    with rowq.connect(url) as broker:
        say("connected")
        os.read(0, 4096)
        stop = threading.Event()
        listen(stop)
        consumer = broker.consumer(
            "q",
            lambda given: say("did", given.id),
            batch_size=batch,
            partitioned=way == "partitioned",
            lease=lease,
            beat=beat,
            dead_after=dead_after,
            delivery=delivery,
        )
        with consumer:
            say("registered", registered(consumer).id)
            stop.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *map(float, sys.argv[4:7]), *sys.argv[7:])  # type: ignore[arg-type]
