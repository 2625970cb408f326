"""A stream among ordinary consumers, senders and operators: every message goes to exactly one of them."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rowq
from rowq import Broker, Draft
from rowq.errors import StreamRevoked, StreamTaken
from rowq.spark.ledger import open_ledger
from tests.ledger.reading import STREAM, payloads
from tests.support.database import Database
from tests.support.tables import faults_of

pytestmark = pytest.mark.one_of("database")

SENDERS, EACH = 3, 200
REVOKES = 50


def test_a_stream_and_consumers_share_a_queue_without_loss(database: Database) -> None:
    sent = threading.Event()
    with rowq.connect(database.url, maintenance=False) as broker, ThreadPoolExecutor(8) as pool:
        sending = [pool.submit(_send, database.url, number) for number in range(SENDERS)]
        taking = [pool.submit(_stream, database.url, "one", sent), pool.submit(_stream, database.url, "two", sent)]
        taking += [pool.submit(_consume, database.url, sent) for _ in range(2)]
        for future in sending:
            future.result()
        sent.set()
        taken = [future.result() for future in taking]
        assert Counter(payload for payloads in taken for payload in payloads) == Counter(range(SENDERS * EACH))
        assert broker.stats("orders").leased == broker.stats("orders").blocked == 0
    assert faults_of(database.url) == {}


def test_holders_that_take_a_stream_from_each_other_lose_and_double_nothing(database: Database) -> None:
    """Each applies a batch once, as a sink does that remembers numbers; whoever was ousted claims again."""
    applied: dict[int, list[int]] = {}
    with rowq.connect(database.url, maintenance=False) as broker, ThreadPoolExecutor(3) as pool:
        broker.send_many("orders", list(range(300)))
        for future in [pool.submit(_contend, database.url, applied) for _ in range(3)]:
            future.result()
        assert sorted(payload for batch in applied.values() for payload in batch) == list(range(300))
        assert broker.stats("orders").leased == 0
    assert faults_of(database.url) == {}


def test_a_stream_that_is_revoked_again_and_again_reads_everything(database: Database) -> None:
    is_over = threading.Event()
    with rowq.connect(database.url, maintenance=False) as broker, ThreadPoolExecutor(2) as pool:
        broker.send_many("orders", [Draft(number, group=str(number % 7)) for number in range(200)])
        revoking = pool.submit(_revoke, database.url, is_over)
        settled = _persist(broker, database.url)
        is_over.set()
        revoking.result()
        assert sorted(settled) == list(range(200))
        for group in range(7):
            assert [number for number in settled if number % 7 == group] == list(range(group, 200, 7))
    assert faults_of(database.url) == {}


def _send(url: str, sender: int) -> None:
    with rowq.connect(url, maintenance=False) as broker:
        for start in range(sender * EACH, (sender + 1) * EACH, 20):
            drafts = [Draft(number, group=str(number % 5) if number % 2 else None) for number in range(start, start + 20)]
            broker.send_many("orders", drafts)


def _is_empty(broker: Broker) -> bool:
    stats = broker.stats("orders")
    return not stats.ready + stats.leased + stats.blocked


def _stream(url: str, name: str, sent: threading.Event) -> list[Any]:
    read: list[Any] = []
    with open_ledger(url) as ledger, rowq.connect(url, maintenance=False) as broker:
        held = ledger.claim(name, ["orders"])
        start = held.acked
        while True:
            end = ledger.take(name, held.epoch, start, 37)
            if end == start and sent.is_set() and _is_empty(broker):
                return read
            read += payloads(ledger, start, end, parts=2, stream=name)
            start = end


def _consume(url: str, sent: threading.Event) -> list[Any]:
    read: list[Any] = []
    with rowq.connect(url, maintenance=False) as broker:
        while True:
            deliveries = broker.receive("orders", max=5, wait=0.05)
            if not deliveries and sent.is_set() and _is_empty(broker):
                return read
            read += [delivery.payload for delivery in deliveries]
            broker.ack_many(deliveries)


def _contend(url: str, applied: dict[int, list[int]]) -> None:
    with open_ledger(url) as ledger:
        while True:
            held = ledger.claim(STREAM, ["orders"])
            start = held.acked
            try:
                for _ in range(5):
                    end = ledger.take(STREAM, held.epoch, start, 10)
                    if end == start:
                        return
                    applied.setdefault(end, payloads(ledger, start, end))
                    start = end
            except (StreamTaken, rowq.LeaseLost):
                continue


def _revoke(url: str, is_over: threading.Event) -> None:
    with open_ledger(url) as ledger:
        ledger.claim(STREAM, ["orders"])
        for _ in range(REVOKES):  # and no more: on a slow machine the stream would never get through between two of them
            if is_over.wait(0.03):
                break
            ledger.revoke(STREAM)


def _persist(broker: Broker, url: str) -> list[int]:
    """Starts afresh whenever the stream was revoked; what counts is what was acked."""
    settled: list[int] = []
    with open_ledger(url) as ledger:
        while not _is_empty(broker):
            held = ledger.claim(STREAM, ["orders"])
            start = held.acked
            try:
                while (end := ledger.take(STREAM, held.epoch, start, 9)) != start:
                    batch = payloads(ledger, start, end)
                    ledger.ack(STREAM, held.epoch, end)
                    settled += batch
                    start = end
            except (StreamRevoked, StreamTaken, rowq.LeaseLost):
                continue
    return settled
