"""A process whose main thread is interrupted again and again (Ctrl-C) while it and many other threads use one broker.

python -m tests.rivals.interrupted URL TIMES
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import rowq
from tests.rivals.process import say

DEADLINE = 60


def send(broker: rowq.Broker) -> None:
    say("sent", broker.send("q", 0))


def handle(broker: rowq.Broker) -> None:
    for delivery in broker.receive("q", wait=0.05):
        say("acking", delivery.id)
        broker.ack(delivery)
        say("acked", delivery.id)


def again(verb: Callable[[rowq.Broker], None], broker: rowq.Broker, stop: threading.Event) -> None:
    """A batch that the interrupted thread was writing for others may be there or not; they hear that, and go on."""
    while not stop.is_set():
        with suppress(rowq.OutcomeUnknown):
            verb(broker)


def be_interrupted(broker: rowq.Broker) -> None:
    with suppress(KeyboardInterrupt):
        say("ready")
        for verb in itertools.cycle((send, handle)):
            with suppress(rowq.OutcomeUnknown):
                verb(broker)


def main(url: str, times: int) -> None:
    stop = threading.Event()
    with rowq.connect(url) as broker:
        threads = [threading.Thread(target=again, args=(verb, broker, stop), daemon=True) for verb in (send, handle) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(times):
            be_interrupted(broker)
        stop.set()
        until = time.monotonic() + DEADLINE
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        stuck = sum(thread.is_alive() for thread in threads)
        say("stuck", stuck)
        if stuck:
            os._exit(1)  # closing would wait for them
        send(broker)
    say("closed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
