"""A client of the server, in a process of its own: threads that send, receive and settle over HTTP, and tell of it once a second.

`python -m trust.soak.client` reads its task from the first line of stdin and writes a line of JSON a second. After a second line it sends
no more, and it ends when stdin does.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count, islice
from typing import Any, TypeVar

import msgspec

import rowq
from trust.soak import mixture
from trust.soak.mixture import MIXED, PLAIN, SINGLE, number_of
from trust.soak.news import News, Sum, Task

T = TypeVar("T")

EVERY = 1.0
WAIT = 0.2
"""Of a receive when all is sent: seconds."""


class Client:
    def __init__(self, task: Task, broker: rowq.Broker) -> None:
        self._task = task
        self._broker = broker
        self._lock = threading.Lock()
        self._numbers = islice(count(task.first), task.messages)
        self._sent, self._acked, self._dead = Sum(), Sum(), Sum()
        self.has_sent_all = False
        """Or need not send any more."""
        self._sending = 0
        self._stale = self._calls = 0
        self._errors: Counter[str] = Counter()
        self._micros: defaultdict[str, list[int]] = defaultdict(list)
        self.stop = threading.Event()

    def news(self) -> News:
        with self._lock:
            micros, self._micros = self._micros, defaultdict(list)
            return News(
                sent=Sum().plus(self._sent),
                acked=Sum().plus(self._acked),
                dead=Sum().plus(self._dead),
                stale=self._stale,
                calls=self._calls,
                errors=dict(self._errors),
                micros=dict(micros),
                has_sent_all=self.has_sent_all and not self._sending,
            )

    def work(self, thread: int) -> None:
        """Sends as much as it receives, at first once to every queue; when all is sent, receives until it is told to stop."""
        chance = random.Random(f"{self._task.seed}/{self._task.name}/{thread}")
        consumer = f"{self._task.name}-{thread}"
        for _ in range(self._task.ahead):
            self._survive(lambda: self._send(PLAIN, self._task.batch))
        for queue, size in chain(mixture.each(self._task.batch), mixture.turns(chance, self._task.batch)):
            if self.stop.is_set():
                break
            self._survive(lambda queue=queue, size=size: self._turn(queue, size, consumer))  # type: ignore[misc]
            if self.has_sent_all:
                self._survive(lambda: self._clear(consumer))

    def _survive(self, act: Callable[[], None]) -> None:
        """An error is written down, and is one of the verdict's questions."""
        try:
            act()
        except rowq.RowqError as error:
            with self._lock:
                self._errors[error.code] += 1

    def _turn(self, queue: str, size: int, consumer: str) -> None:
        if queue == SINGLE:
            for _ in range(size):
                self._send(queue, 1)
                self._receive(queue, 1, consumer)
        else:
            self._send(queue, size)
            for _ in range(2 if queue == MIXED else 1):  # what fails comes again
                self._receive(queue, size, consumer)

    def _clear(self, consumer: str) -> None:
        for queue in mixture.QUEUES:
            self._settle(self._broker.receive(queue, max=self._task.batch, wait=WAIT, consumer=consumer))

    def _send(self, queue: str, size: int) -> None:
        with self._lock:
            numbers = [] if self.has_sent_all else list(islice(self._numbers, size))
            if not numbers:
                self.has_sent_all = True
            self._sending += 1
        try:
            if numbers:
                self._hand_over(queue, mixture.drafts(queue, numbers))
                with self._lock:
                    self._sent.add(numbers)
        finally:
            with self._lock:
                self._sending -= 1

    def _hand_over(self, queue: str, drafts: list[Any]) -> None:
        if queue == SINGLE:
            self._time("send one", lambda: self._broker.send(queue, drafts[0]))
        else:
            self._time("send" if queue == PLAIN else "send other", lambda: self._broker.send_many(queue, drafts))

    def _receive(self, queue: str, size: int, consumer: str) -> None:
        """An empty answer has a latency as well, but not one that says anything."""
        verb = {PLAIN: "receive", SINGLE: "receive one"}.get(queue, "receive other")
        self._settle(self._time(verb, lambda: self._broker.receive(queue, max=size, consumer=consumer), counts=bool))

    def _settle(self, deliveries: Sequence[rowq.Delivery]) -> None:
        fates = mixture.sort(deliveries)
        if fates.ack:
            verb = "ack one" if len(fates.ack) == 1 else "ack" if fates.ack[0].queue == PLAIN else "ack other"
            self._note(self._acked, fates.ack, self._time(verb, lambda: self._broker.ack_many(fates.ack)))
        if fates.reject:
            self._note(self._dead, fates.reject, self._time("reject", lambda: self._broker.reject_many(fates.reject, reason="soaked")))
        if fates.nack:
            outcomes = self._time("nack", lambda: self._broker.nack_many(fates.nack, reason="soaked"))
            last = [pair for pair in zip(fates.nack, outcomes, strict=True) if mixture.is_last(pair[0])]
            self._note(self._dead, [delivery for delivery, _ in last], [outcome for _, outcome in last])

    def _note(self, total: Sum, deliveries: Sequence[rowq.Delivery], outcomes: Sequence[rowq.Outcome]) -> None:
        done = [number_of(each) for each, outcome in zip(deliveries, outcomes, strict=True) if outcome is rowq.Outcome.DONE]
        with self._lock:
            total.add(done)
            self._stale += len(deliveries) - len(done)

    def _time(self, verb: str, call: Callable[[], T], counts: Callable[[T], bool] = lambda _: True) -> T:
        started = time.perf_counter()
        answer = call()
        micros = round((time.perf_counter() - started) * 1e6)
        with self._lock:
            self._calls += 1
            if counts(answer):
                self._micros[verb].append(micros)
        return answer


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    with rowq.connect(task.url, api_key=task.secret, timeout=60) as broker:
        client = Client(task, broker)
        threads = [threading.Thread(target=client.work, args=(number,)) for number in range(task.threads)]
        threading.Thread(target=_wait_for_end, args=(client,), daemon=True).start()
        for thread in threads:
            thread.start()
        while not client.stop.wait(EVERY):
            _tell(client)
        for thread in threads:
            thread.join()
        _tell(client)


def _wait_for_end(client: Client) -> None:
    sys.stdin.buffer.readline()
    client.has_sent_all = True
    sys.stdin.buffer.read()
    client.stop.set()


def _tell(client: Client) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(client.news()) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
