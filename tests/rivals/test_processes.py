"""Several processes on one database: each message once, and nobody hears of a lock."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

import rowq
from tests.rivals.application import own_connection
from tests.rivals.process import Start
from tests.support.patience import eventually
from tests.support.tables import faults_of


def test_processes_that_start_together_handle_each_message_once(start: Start, bare_url: str) -> None:
    handle_each_message_once(start, bare_url, processes=2, calls=25)


@pytest.mark.prove("six processes and 6,000 messages, 40 s; test_processes_that_start_together_handle_each_message_once stands for it")
def test_many_processes_that_start_together_handle_each_message_once(start: Start, bare_url: str) -> None:
    handle_each_message_once(start, bare_url, processes=3, calls=60)


def handle_each_message_once(start: Start, url: str, processes: int, calls: int) -> None:
    """The tables are not there yet: whoever comes first makes them, and the others must not stumble over that."""
    senders = [start("sending", url, f"sender-{number}", 3, calls) for number in range(processes)]
    consumers = [start("consuming", url, f"consumer-{number}", 3, 60) for number in range(processes)]
    with rowq.connect(url) as broker, closing(own_connection(url)) as own:
        of_the_application = []
        for number in range(40):  # one more rival: the application, in transactions of its own
            of_the_application.append(broker.within(own).send("q", number))
            own.commit()
        for sender in senders:
            sender.finish(60)
        eventually(lambda: broker.stats("q").depth == 0, 60)
    for consumer in consumers:
        consumer.finish()

    sent = [id for sender in senders for _, ids in sender.said("sent") for id in ids] + of_the_application
    got = [(id, attempt) for consumer in consumers for id, attempt in consumer.said("got")]
    acked = [id for consumer in consumers for acks in consumer.said("acked") for id, _ in acks[0]]
    assert sum(len(sender.said("sent")) for sender in senders) == processes * 3 * calls
    assert Counter(sent).total() == len(set(sent))
    assert Counter(got) == Counter((id, 1) for id in sent)
    assert Counter(acked) == Counter(sent)
    assert faults_of(url) == {}
