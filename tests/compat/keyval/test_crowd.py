"""Twenty threads and many messages: nothing is lost, nothing comes twice."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from tests.compat.keyval.client import QUEUE, Client
from tests.support.crowd import Crowd, together

THREADS = 10
"""On either side."""


@contextmanager
def asking(client: Client) -> Iterator[Callable[..., Any]]:
    """One connection for all that a thread asks."""
    with closing(http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)) as connection:

        def ask(method: str, path: str, body: Any = None) -> Any:
            connection.request(method, QUEUE + path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            told = json.loads(answer.read())
            assert answer.status == 200, told
            return told

        yield ask


def produce(client: Client, messages: int, number: int) -> None:
    with asking(client) as ask:
        for n in range(number, messages, THREADS):
            ask("POST", "/enqueue", {"value": n})


def consume(client: Client, messages: int, seen: list[int]) -> None:
    with asking(client) as ask:
        while len(seen) < messages:
            message = ask("GET", "/poll")["message"]
            if message is not None:
                seen.append(message["value"])
                ask("POST", "/ack", {"id": message["id"], "receipt": message["receipt"]})


@pytest.mark.parametrize("messages", [200, pytest.param(2_000, marks=pytest.mark.prove("10 s on each database; 200 stand for it"))])
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_comes_twice(client: Client, messages: int) -> None:
    seen: list[int] = []
    together(
        *(partial(produce, client, messages, number) for number in range(THREADS)),
        *(partial(consume, client, messages, seen) for _ in range(THREADS)),
        within=500,
    )
    assert Counter(seen) == Counter(range(messages))
    assert client.stats() == (0, 0, 0)


def test_many_who_requeue_and_delete_the_same_dead_letter_agree(client: Client) -> None:
    ids = [client.kill(n) for n in range(10)]
    for id in ids:
        ways = [("POST", f"queue/dlq/{id}/requeue"), ("DELETE", f"queue/dlq/{id}")] * 5
        statuses = Crowd([partial(client.ask, *way) for way in ways]).results()
        assert Counter(answer.status for answer in statuses) == {200: 1, 404: 9}
    pending, processing, dead = client.stats()
    assert (processing, dead) == (0, 0)
    assert [client.poll()["attempts"] for _ in range(pending)] == [1] * pending
