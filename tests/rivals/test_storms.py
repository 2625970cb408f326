"""Storms from many threads: groups keep their order, a key waits once, every failure counts once, operators disturb nobody."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

from rowq import Broker, Delivery
from tests.support.background import Background
from tests.support.crowd import Crowd
from tests.support.patience import eventually
from tests.support.tables import faults_of

THREADS = 8
EACH = 60


def consume(broker: Broker, handle: Callable[[Delivery], None], is_done: threading.Event, *, most: int = 5) -> None:
    while not is_done.is_set():
        for delivery in broker.receive("q", max=most, wait=0.2):
            handle(delivery)


def work_off(broker: Broker, total: int, handle: Callable[[Delivery], None], *sends: Callable[[], object]) -> list[str]:
    """Senders and as many consumers at the same time, until so many messages are handled; their ids in the order of handling."""
    handled: list[str] = []
    lock, is_done = threading.Lock(), threading.Event()

    def handle_and_count(delivery: Delivery) -> None:
        handle(delivery)
        with lock:
            handled.append(delivery.id)
            if len(handled) >= total:
                is_done.set()

    consumers = Crowd([partial(consume, broker, handle_and_count, is_done) for _ in range(THREADS)])
    Crowd(sends).results(60)
    assert is_done.wait(60), f"{len(handled)} of {total} were handled"
    consumers.results(60)
    return handled


def test_every_failure_counts_once(broker: Broker, url: str) -> None:
    """Each message fails twice and is then acked: three deliveries each, no more and no fewer, numbered."""
    attempts: defaultdict[str, list[int]] = defaultdict(list)

    def fail_twice(delivery: Delivery) -> None:
        attempts[delivery.id].append(delivery.attempt)
        if delivery.attempt < 3:
            broker.nack(delivery)
        else:
            broker.ack(delivery)

    broker.configure("q", backoff=[], max_attempts=5)
    sends = [partial(broker.send_many, "q", range(10)) for _ in range(THREADS)]
    work_off(broker, THREADS * 10 * 3, fail_twice, *sends)
    assert list(attempts.values()) == [[1, 2, 3]] * (THREADS * 10)
    assert faults_of(url) == {}


def test_a_storm_keeps_the_order_of_groups(broker: Broker, url: str) -> None:
    handled: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    in_hand: Counter[str] = Counter()
    lock = threading.Lock()
    crowded: list[str] = []

    def handle(delivery: Delivery) -> None:
        group = delivery.group or ""
        with lock:
            in_hand[group] += 1
            if in_hand[group] > 1:
                crowded.append(group)
            handled[group].append(tuple(delivery.payload))
        with lock:
            in_hand[group] -= 1
        broker.ack(delivery)

    def send(thread: int) -> None:
        for number in range(0, EACH, 2):
            broker.send("q", [thread, number], group=f"g{number // 2 % 5}")
            broker.send_many("q", [[thread, number + 1]], group=f"g{number // 2 % 5}")

    work_off(broker, THREADS * EACH, handle, *[partial(send, thread) for thread in range(THREADS)])
    assert crowded == []
    for group, messages in handled.items():
        for thread in range(THREADS):
            numbers = [number for sender, number in messages if sender == thread]
            assert numbers == sorted(numbers), f"{group} lost the order of sender {thread}"
    assert sum(len(messages) for messages in handled.values()) == THREADS * EACH
    assert faults_of(url) == {}


def test_a_storm_never_makes_a_key_wait_twice(broker: Broker, url: str) -> None:
    is_over = threading.Event()

    def watch() -> int:
        """Looks at one moment after another; each is consistent in itself."""
        looks = 0
        while not looks or not is_over.is_set():
            waiting = Counter(message.key for message in broker.walk("q", states=["ready", "scheduled", "blocked"]))
            assert all(times == 1 for times in waiting.values()), waiting
            looks += 1
        return looks

    def send(thread: int) -> list[str]:
        options = [{"delay": 0.01}, {"group": "g"}, {}, {"priority": 3}]
        return [broker.send("q", number, key=f"k{number % 7}", **options[number % 4]) for number in range(EACH)]  # type: ignore[arg-type]

    def fail_or_finish(delivery: Delivery) -> None:
        broker.ack(delivery) if delivery.attempt > 1 else broker.nack(delivery, counts=True, delay=0)

    broker.configure("q")
    watching = Background(watch)
    is_done = threading.Event()
    consumers = Crowd([partial(consume, broker, fail_or_finish, is_done) for _ in range(THREADS)])
    sent = Crowd([partial(send, thread) for thread in range(THREADS)]).results(60)
    assert {id for ids in sent for id in ids}
    eventually(lambda: broker.stats("q").depth == 0)
    is_done.set()
    is_over.set()
    consumers.results(60)
    assert watching.result(60) > 0
    assert faults_of(url) == {}


def test_operators_among_the_workers_disturb_nobody(broker: Broker, url: str) -> None:
    is_done = threading.Event()
    refused: list[str] = []

    def operate() -> None:
        while not is_done.is_set():
            broker.pause("q")
            broker.resume("q")
            broker.redrive("q")
            broker.maintain()
            broker.queues()

    def handle(delivery: Delivery) -> None:
        if delivery.attempt == 1 and delivery.id not in refused and delivery.payload % 3 == 0:
            refused.append(delivery.id)
            broker.reject(delivery)
        else:
            broker.ack(delivery)

    broker.configure("q")
    operating = Background(operate)
    sends = [partial(broker.send_many, "q", range(30)) for _ in range(4)]
    try:
        handled = work_off(broker, 4 * 30 + 4 * 10, handle, *sends)
    finally:
        is_done.set()
    operating.result(60)
    assert Counter(Counter(handled).values()) == {1: 80, 2: 40}
    assert broker.stats("q").depth == 0
    assert faults_of(url) == {}
