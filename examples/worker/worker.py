"""A worker program: it consumes a queue of a server or a database until it is told to stop.

    ROWQ_URL=http://localhost:8080 python examples/worker/worker.py orders

`deploy/compose.yaml` runs it next to a server. On SIGTERM and Ctrl-C it finishes its messages in flight and exits. If the server is
unavailable, it waits.
"""

from __future__ import annotations

import logging
import os
import sys

import rowq

_log = logging.getLogger("worker")


def handle(delivery: rowq.Delivery) -> None:
    """Your own code. When it returns, the message is acked; when it raises, the message comes back after ten seconds."""
    _log.info("%s, attempt %d: %s", delivery.id, delivery.attempt, delivery.payload)


def main(queue: str = "orders") -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with rowq.connect(os.environ.get("ROWQ_URL", "http://localhost:8080")) as broker:
        _log.info("takes messages of %s", queue)
        broker.consumer(queue, handle, concurrency=4, retry=10).run()
    _log.info("has stopped")


if __name__ == "__main__":
    main(*sys.argv[1:2])
