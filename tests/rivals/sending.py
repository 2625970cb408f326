"""A process of threads that send, one message or a batch at a time, and say which ids they were answered with.

python -m tests.rivals.sending URL NAME THREADS CALLS      CALLS 0: until it is told to end
"""

from __future__ import annotations

import itertools
import random
import sys
import threading

import rowq
from tests.rivals.process import listen, run_threads, say


def send(broker: rowq.Broker, name: str, calls: int, stop: threading.Event) -> None:
    choose = random.Random(name)
    for number in itertools.count():
        if stop.is_set() or number == calls > 0:
            return
        batch, size = f"{name}-{number}", choose.choice((1, 1, 1, 2, 10, 50))
        payloads = [{"batch": batch, "of": size, "place": place} for place in range(size)]
        ids = [broker.send("q", payloads[0])] if size == 1 else broker.send_many("q", payloads)
        say("sent", batch, ids)


def main(url: str, name: str, threads: int, calls: int) -> None:
    stop = threading.Event()
    if not calls:
        listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=send, args=(broker, f"{name}-{thread}", calls, stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
