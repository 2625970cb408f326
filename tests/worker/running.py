"""A program that runs a consumer, as programs do, in its main thread or in an event loop; its function goes on when it is told to.

python -m tests.worker.running URL thread|task
"""

from __future__ import annotations

import asyncio
import os
import sys

import rowq
from tests.rivals.process import say


def handle(delivery: rowq.Delivery) -> None:
    say("begun", delivery.payload)
    os.read(0, 4096)


def run(url: str) -> None:
    with rowq.connect(url) as broker:
        say("running")
        broker.consumer("q", handle, batch_size=3).run()  # what is not begun goes back when it is told to end: a sign for the test
        say("ended")


async def run_in_loop(url: str) -> None:
    async with rowq.connect_async(url) as broker:
        say("running")
        await broker.consumer("q", handle, batch_size=3).run()  # what is not begun goes back when it is told to end: a sign for the test
        say("ended")


if __name__ == "__main__":
    if sys.argv[2] == "task":
        asyncio.run(run_in_loop(sys.argv[1]))
    else:
        run(sys.argv[1])
