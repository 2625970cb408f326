"""A process whose messages live short lives, a thread for each kind of life. It says what it asks for, and what was answered.

    python -m tests.disasters.living URL NAME [handling]

Handling: everything is sent before it says "prepared", and from then on there is no call that must be on disk. A thread whose call fails
says so and ends. Queues are called after NAME, so that several such processes may come one after another.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import rowq
from tests.disasters.lives import HANDLED, LIVES
from tests.rivals.process import listen, run_threads, say

LONG = 3600
STOCK = 3_000
Deed = Callable[[rowq.Broker, str, list[rowq.Delivery]], object]

DEEDS: dict[str, Deed] = {
    "ack": lambda broker, _, deliveries: broker.ack_many(deliveries),
    "nack": lambda broker, _, deliveries: broker.nack_many(deliveries, delay=LONG),
    "extend": lambda broker, _, deliveries: broker.extend_many(deliveries, LONG),
    "reject": lambda broker, _, deliveries: broker.reject_many(deliveries),
    "reschedule": lambda broker, _, deliveries: broker.reschedule_many(deliveries, LONG),
    "redrive": lambda broker, queue, deliveries: broker.redrive(queue, ids=[delivery.id for delivery in deliveries]),
}


def live(broker: rowq.Broker, queue: str, life: str, batches: Iterator[list[str]]) -> None:
    for ids in batches:
        deliveries: list[rowq.Delivery] = []
        for step in LIVES[life][1:]:
            say("asked", step, ids)
            if step.startswith("receive"):
                deliveries = receive(broker, queue, ids)
            elif step == "delete":
                for id in ids:
                    broker.delete(id)
            else:
                DEEDS[step](broker, queue, deliveries)
            say("done", step, ids)


def receive(broker: rowq.Broker, queue: str, ids: list[str]) -> list[rowq.Delivery]:
    """These and no others: they are the next ones, and nobody else is here."""
    deliveries: list[rowq.Delivery] = []
    while len(deliveries) < len(ids):
        deliveries += broker.receive(queue, max=len(ids) - len(deliveries), lease=LONG, wait=5)
    assert sorted(delivery.id for delivery in deliveries) == sorted(ids)
    return deliveries


def sent_now(broker: rowq.Broker, queue: str, stop: threading.Event) -> Iterator[list[str]]:
    choose = random.Random(queue)
    while not stop.is_set():
        ids = broker.send_many(queue, ["small"] * choose.choice((1, 1, 3)))
        say("done", "send", ids)
        yield ids


def sent_before(ids: list[str], stop: threading.Event) -> Iterator[list[str]]:
    choose = random.Random(ids[0])
    while ids and not stop.is_set():
        size = choose.choice((1, 1, 3))
        yield ids[:size]
        ids = ids[size:]


def configure(broker: rowq.Broker, queue: str, stop: threading.Event) -> None:
    """A decision that is no message's: each one is a number higher."""
    for lease in itertools.count(1):
        if stop.is_set():
            return
        say("configuring", queue, lease)
        broker.configure(queue, lease=lease)
        say("configured", queue, lease)


def telling(work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except rowq.RowqError as error:
            say("failed", error.code, str(error))

    return threading.Thread(target=run)


def main(url: str, name: str, *how: str) -> None:
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        queues = {life: f"{name}-{life}" for life in (HANDLED if how else LIVES)}
        if how:
            stocks = {life: broker.send_many(queue, ["small"] * STOCK) for life, queue in queues.items()}
            say("done", "send", [id for ids in stocks.values() for id in ids])
            batches = {life: sent_before(ids, stop) for life, ids in stocks.items()}
            more: list[threading.Thread] = []
        else:
            broker.configure(queues["strict"], delivery="at_most_once")
            batches = {life: sent_now(broker, queue, stop) for life, queue in queues.items()}
            more = [telling(partial(configure, broker, f"{name}-configured", stop))]
        say("prepared")
        run_threads([telling(partial(live, broker, queue, life, batches[life])) for life, queue in queues.items()] + more)


if __name__ == "__main__":
    main(*sys.argv[1:])
