"""A client with the interface and the guarantees of gq: batching producers, consumers that share the messages, one table of messages.

>>> with Client("sqlite:///jobs.db") as client:  # doctest: +SKIP
...     client.new_producer(batch_size=1).push({"to": "ada@example.com"}, deadline=60)
...     client.new_consumer(batch_size=10).consume(send_email)

A message whose function raised returns at once, behind those that wait, until its deadline; then it is `failed`, and can be read.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, Self, Unpack, cast

from rowq.connect import ConnectOptions, connect
from rowq.errors import Forbidden, InvalidArgument, QueueNotFound
from rowq.model.message import Delivery
from rowq.model.queue import DeliveryMode
from rowq.worker.consumer import Consumer as Worker
from rowq.worker.plan import ConsumerOptions, Process
from rowq.worker.producer import Producer

SETTINGS: dict[str, Any] = {"max_attempts": 0, "order": "ready", "on_exhausted": "fail", "keep": "outcome"}
"""A message that always fails does not block others, since it goes to the end of the queue."""


class Client:
    """The messages of one queue, `gq` by default. The queue is configured as gq guarantees, even if it already exists."""

    def __init__(self, url: str, *, queue: str = "gq", delivery: DeliveryMode = "at_least_once", **options: Unpack[ConnectOptions]) -> None:
        self.queue = queue
        self.delivery = delivery
        self.broker = connect(url, **options)
        try:
            self._configure()
        except BaseException:
            self.broker.close()
            raise

    def new_producer(self, batch_size: int = 1) -> Producer:
        """`push(payload, deadline=None)` takes a message; it is on disk at once, or with its batch."""
        return self.broker.producer(self.queue, batch_size=batch_size)

    def new_consumer(self, batch_size: int = 10, **options: Any) -> Consumer:
        """`consume(process)` pops `batch_size` messages at a time. Options are those of `broker.consumer`."""
        return Consumer(self, cast(ConsumerOptions, {"batch_size": batch_size, **options}))

    def close(self) -> None:
        self.broker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _configure(self) -> None:
        wanted = {**SETTINGS, "delivery": self.delivery}
        with suppress(Forbidden):  # a key that may not configure leaves it to one that may
            try:
                settings = self.broker.settings(self.queue)
            except QueueNotFound:
                settings = None
            if settings is None or any(getattr(settings, name) != value for name, value in wanted.items()):
                self.broker.configure(self.queue, **wanted)


class Consumer:
    """Created by `client.new_consumer()`."""

    def __init__(self, client: Client, options: ConsumerOptions) -> None:
        self._client = client
        self._options: ConsumerOptions = {"delivery": client.delivery, "retry": 0, "limit": "deadline", **options}
        self._worker: Worker | None = None
        self.worker(_not_yet)  # a wrong option is an error here, not at the first message

    def consume(self, process: Process) -> None:
        """Calls `process` with the payload of each message, until `stop()`, SIGTERM or Ctrl-C. If it returns, the message is processed; if
        it raises, the message returns, or is failed once its deadline has passed."""
        if not callable(process):
            raise InvalidArgument(f"process must be a function that takes a payload, not {type(process).__name__}")
        self._worker = self.worker(lambda delivery: process(delivery.payload))
        self._worker.run()

    def stop(self) -> None:
        """From another thread, or from the function itself: messages in progress are finished first."""
        if self._worker is not None:
            self._worker.stop()

    def worker(self, handle: Process) -> Worker:
        """The underlying consumer of the library, for a function that takes deliveries."""
        return self._client.broker.consumer(self._client.queue, handle, **self._options)


def _not_yet(delivery: Delivery) -> None:
    raise AssertionError(f"consume() was not called, and {delivery.id} came")
