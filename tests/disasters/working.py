"""A process of threads that send and handle messages, come what may: an error is told, and the next call is made.

python -m tests.disasters.working URL NAME
"""

from __future__ import annotations

import itertools
import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import rowq
from tests.rivals.process import listen, run_threads, say

LEASE = 3
SENDERS = HANDLERS = 2
T = TypeVar("T")


def attempt(verb: str, call: Callable[[], T], stop: threading.Event) -> T | None:
    """The answer; None after an error that rowq has told."""
    started = time.monotonic()
    try:
        return call()
    except rowq.RowqError as error:
        say("failed", verb, error.code, round(time.monotonic() - started, 3), str(error))
        stop.wait(0.05)
        return None


def keep_sending(broker: rowq.Broker, name: str, stop: threading.Event) -> None:
    choose = random.Random(name)
    for number in itertools.count():
        if stop.is_set():
            return
        size = choose.choice((1, 1, 1, 5))
        payloads = [{"batch": f"{name}-{number}", "of": size, "place": place} for place in range(size)]
        ids = attempt("send", lambda: broker.send_many("q", payloads), stop)  # noqa: B023  # called at once
        if ids is not None:
            say("sent", ids)


def keep_handling(broker: rowq.Broker, name: str, stop: threading.Event) -> None:
    choose = random.Random(name)
    while not stop.is_set():
        most = choose.choice((1, 5, 20))
        deliveries = attempt("receive", lambda: broker.receive("q", max=most, wait=0.5, lease=LEASE), stop)  # noqa: B023
        if not deliveries:
            continue
        for delivery in deliveries:
            say("got", delivery.id, delivery.attempt, delivery.payload["batch"], delivery.payload["of"], delivery.payload["place"])
        say("acking", [delivery.id for delivery in deliveries])
        outcomes = attempt("ack", lambda: broker.ack_many(deliveries), stop)  # noqa: B023
        if outcomes is not None:
            done = [delivery for delivery, outcome in zip(deliveries, outcomes, strict=True) if outcome is rowq.Outcome.DONE]
            say("acked", [(delivery.id, delivery.attempt) for delivery in done])


class Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say("logged", record.levelname, record.getMessage())


def main(url: str, name: str) -> None:
    logging.getLogger().addHandler(Log())
    stop = threading.Event()
    listen(stop)
    with rowq.connect(url) as broker:
        sending = [threading.Thread(target=keep_sending, args=(broker, f"{name}-{place}", stop)) for place in range(SENDERS)]
        handling = [threading.Thread(target=keep_handling, args=(broker, f"{name}-{place}", stop)) for place in range(HANDLERS)]
        run_threads(sending + handling)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
