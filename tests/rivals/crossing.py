"""A process of threads that lock the same rows as everybody else, in the order that it is told: a deadlock waiting to happen.

python -m tests.rivals.crossing URL NAME forward|backward
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable

import rowq
from tests.rivals.process import listen, run_threads, say

QUEUES = ["q", "r"]
KEYS = [f"key-{number}" for number in range(6)]
GROUPS = [f"group-{number}" for number in range(3)]


def send(broker: rowq.Broker, queue: str, is_forward: bool, choose: random.Random) -> int:
    """Sends of several threads, to both queues, share a transaction."""
    drafts = [rowq.Draft(0, key=key, group=choose.choice((None, *GROUPS))) for key in KEYS]
    return len(broker.send_many(queue, drafts if is_forward else drafts[::-1]))


def hand_back(broker: rowq.Broker, queue: str, is_forward: bool, choose: random.Random) -> int:
    """Each of them locks its key and its group on the way."""
    deliveries = broker.receive(queue, max=10)
    verbs: list[Callable[..., list[rowq.Outcome]]] = [broker.nack_many, broker.ack_many, broker.reject_many]
    choose.choice(verbs)(deliveries if is_forward else deliveries[::-1])
    return broker.redrive(queue)


def cross(broker: rowq.Broker, name: str, is_forward: bool, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        deed = choose.choice((send, hand_back))
        say("did", deed.__name__, deed(broker, choose.choice(QUEUES), is_forward, choose))


def main(url: str, name: str, is_forward: bool) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        run_threads([threading.Thread(target=cross, args=(broker, f"{name}-{thread}", is_forward, stop)) for thread in range(4)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "forward")
