"""Calls of many callers share transactions here: told for how many seconds, it says how many messages it sent, received and acked.

`python -m benchmarks.postgresql.together URL CALLERS` answers a line with a line; an empty one ends it.
"""

from __future__ import annotations

import asyncio
import sys
import time

import rowq
from benchmarks.payload import payload

QUEUE = "bench"


async def main(url: str, callers: int) -> None:
    async with rowq.connect_async(url) as broker:
        await _work(broker, callers, 0.2)
        print("ready", flush=True)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(await _work(broker, callers, float(line)), flush=True)


async def _work(broker: rowq.AsyncBroker, callers: int, seconds: float) -> int:
    until = time.perf_counter() + seconds

    async def caller() -> int:
        done = 0
        while time.perf_counter() < until:
            await broker.send(QUEUE, payload(done))
            for delivery in await broker.receive(QUEUE, wait=10):
                await broker.ack(delivery)
                done += 1
        return done

    return sum(await asyncio.gather(*[caller() for _ in range(callers)]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
