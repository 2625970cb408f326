"""A process of threads that all send under the same few keys, or into the same few groups, and say what they were answered.

python -m tests.rivals.contending URL NAME THREADS keys|groups|both
"""

from __future__ import annotations

import itertools
import random
import sys
import threading

import rowq
from tests.rivals.process import listen, run_threads, say

KEYS = [f"key-{number}" for number in range(4)]
GROUPS = [f"group-{number}" for number in range(3)]


def contend(broker: rowq.Broker, name: str, by: str, stop: threading.Event) -> None:
    """Its numbers grow. Beside the keys that all share it has one of its own, of which it knows every payload. It takes a breath after each
    call, so that those who handle can keep up."""
    choose = random.Random(name)
    for number in itertools.count():
        if stop.wait(0.005):
            return
        key = choose.choice([*KEYS, f"of-{name}"]) if by != "groups" else None
        group = choose.choice(GROUPS) if by != "keys" else None
        say("sent", broker.send("q", [name, number], key=key, group=group), key, group, name, number)


def main(url: str, name: str, threads: int, by: str) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=contend, args=(broker, f"{name}-{thread}", by, stop)) for thread in range(threads)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
