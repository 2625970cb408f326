"""Workers: three threads share a queue. A job that fails is retried; one that cannot succeed becomes a dead letter and is redriven.

    python examples/workers.py

Each job resizes a picture. One picture is on a disk that answers only at the third attempt: it comes back after a short pause.
One file is not a picture: it is rejected at once. An operator inspects the dead letters, fixes the cause, and redrives them.
"""

# ruff: noqa: T201  # an example talks to its reader

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import rowq

QUEUE = "pictures"


class NotAPicture(Exception):
    """No further attempt would help."""


class Studio:
    """Resizes pictures. At first it cannot read text files."""

    def __init__(self) -> None:
        self.reads_text = False

    def resize(self, name: str, attempt: int) -> None:
        if name == "slow.png" and attempt < 3:
            raise OSError("the disk does not answer")
        if name.endswith(".txt") and not self.reads_text:
            raise NotAPicture(f"{name} is text")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, rowq.connect(f"sqlite:///{Path(folder) / 'studio.db'}") as broker:
        studio = Studio()
        broker.configure(QUEUE, max_attempts=5, backoff=rowq.exponential(0.05, cap=1))
        broker.send_many(QUEUE, [{"name": name} for name in ("a.png", "b.png", "slow.png", "notes.txt", "c.png")])

        work_off(broker, studio)
        for letter in broker.browse(QUEUE, state="dead"):
            print(f"dead letter: {letter.payload['name']}, {letter.reason}: {letter.error}")

        studio.reads_text = True
        print(f"redriven: {broker.redrive(QUEUE)}")
        work_off(broker, studio)
        stats = broker.stats(QUEUE)
        print("nothing left to do" if stats.depth == stats.dead == 0 else f"left: {stats}")


def work_off(broker: rowq.Broker, studio: Studio) -> None:
    """Run three workers until no message is ready, leased or waiting for a retry."""
    workers = [threading.Thread(target=work, args=(broker, studio, f"worker {number}")) for number in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def work(broker: rowq.Broker, studio: Studio, name: str) -> None:
    while broker.stats(QUEUE).depth:
        for delivery in broker.receive(QUEUE, wait=0.2, consumer=name):
            handle(broker, studio, delivery, name)


def handle(broker: rowq.Broker, studio: Studio, delivery: rowq.Delivery, name: str) -> None:
    picture = delivery.payload["name"]
    try:
        studio.resize(picture, delivery.attempt)
    except NotAPicture as error:
        broker.reject(delivery, reason=str(error))
    except OSError as error:
        print(f"{name}: {picture}, attempt {delivery.attempt}: {error}")
        broker.nack(delivery, reason=str(error))
    else:
        broker.ack(delivery)
        print(f"{name}: {picture} is done")


if __name__ == "__main__":
    main()
