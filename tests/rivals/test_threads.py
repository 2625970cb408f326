"""Many threads on one broker: every message is handled by exactly one of them."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from functools import partial

import rowq
from tests.support.crowd import together
from tests.support.life import history_of

SENDERS = RECEIVERS = 16
EACH = 40


def test_sixteen_threads_send_and_sixteen_handle_each_message_once(broker: rowq.Broker) -> None:
    handled = itertools.count(1)
    is_over = threading.Event()

    def send(sender: int) -> list[str]:
        ids = [broker.send("q", [sender, number]) for number in range(EACH // 2)]
        return ids + broker.send_many("q", [[sender, number] for number in range(EACH // 2, EACH)])

    def receive(receiver: int) -> list[str]:
        ids: list[str] = []
        while not is_over.is_set():
            for delivery in broker.receive("q", max=1 + receiver % 4, wait=0.2):
                broker.ack(delivery)
                ids.append(delivery.id)
                if next(handled) == SENDERS * EACH:
                    is_over.set()
        return ids

    answers = together(*(partial(send, n) for n in range(SENDERS)), *(partial(receive, n) for n in range(RECEIVERS)), within=60)
    sent = Counter(id for ids in answers[:SENDERS] for id in ids)
    assert len(sent) == SENDERS * EACH
    assert Counter(id for ids in answers[SENDERS:] for id in ids) == sent
    stats = broker.stats("q")
    assert (stats.depth, stats.dead, stats.finished) == (0, 0, 0)
    assert all(history_of(broker, id) == ["enqueued", "delivered", "acked"] for id in sent)


def test_threads_on_brokers_of_their_own_share_the_database(url: str, broker: rowq.Broker) -> None:
    def work(worker: int) -> list[int]:
        with rowq.connect(url) as own:
            for number in range(20):
                own.send("q", worker * 20 + number)
            deliveries = [delivery for _ in range(20) for delivery in own.receive("q", wait=60)]
            own.ack_many(deliveries)
            return [delivery.payload for delivery in deliveries]

    answers = together(*(partial(work, worker) for worker in range(6)), within=100)
    assert sorted(itertools.chain(*answers)) == list(range(120))
    assert broker.stats("q").depth == 0
