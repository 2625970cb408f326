"""What is too long or too large for one request is asked in several, and nobody notices."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

import rowq
from rowq import Broker, InvalidArgument, ManualClock, Outcome, State, Where
from rowq.client import verbs
from tests.client.proxy import Proxy
from tests.support.life import bury, depths, ids, state_of
from tests.support.server import Server


def driven(steps: Any, answer: Callable[[Any], Any]) -> Any:
    """What comes of the steps when each of their questions gets that answer."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(answer(asked))
    except StopIteration as end:
        return end.value


def test_a_long_wait_is_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that moves by what the server was asked to wait."""
    clock, waits = ManualClock(), list[int]()

    def wait_in_vain(asked: Any) -> list[object]:
        waits.append(json.loads(asked.body)["wait_ms"])
        clock.advance(waits[-1] / 1000)
        return []

    monkeypatch.setattr(verbs, "time", SimpleNamespace(monotonic=lambda: clock.now() / 1000))
    assert driven(verbs.RemoteVerbs().receive("q", 1, 75, None, None, None, None), wait_in_vain) == []
    assert waits == [30_000, 30_000, 15_000]


def test_no_request_of_a_long_wait_takes_longer_than_it_may(broker: Broker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "LONGEST_WAIT", 0.1)
    began = time.monotonic()
    assert broker.receive("q", wait=0.3) == []
    assert time.monotonic() - began >= 0.3
    assert max(json.loads(question.partition(b"\r\n\r\n")[2])["wait_ms"] for question in proxy.questions) == 100


def test_an_empty_answer_that_comes_too_soon_is_no_reason_to_hurry(broker: Broker, server: Server, proxy: Proxy) -> None:
    server.service.stop()
    assert broker.receive("q", wait=0.35) == []
    assert len(proxy.questions) <= 6


def test_many_receipts_are_several_requests(broker: Broker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "MAX_RECEIPTS", 3)
    broker.send_many("q", list(range(7)))
    deliveries = broker.receive("q", max=7)
    asked = len(proxy.questions)
    assert broker.ack_many([*deliveries[:4], "nonsense ☃", *deliveries[4:]]) == [
        *[Outcome.DONE] * 4,
        Outcome.NOT_FOUND,
        *[Outcome.DONE] * 3,
    ]
    assert len(proxy.questions) == asked + 3


def test_more_messages_than_a_request_takes_are_refused_and_not_torn_apart(broker: Broker, proxy: Proxy) -> None:
    with pytest.raises(InvalidArgument, match="several calls"):
        broker.send_many("q", [1] * 100_001)
    assert proxy.questions == []


def dead(broker: Broker, count: int) -> list[str]:
    return [bury(broker, number, reason="odd" if number % 2 else "even", key=f"k{number}") for number in range(count)]


def test_a_redrive_that_somebody_watches_goes_page_by_page(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.engine.arguments.PIECE", 2)
    dead(broker, 5)
    seen: list[int] = []
    assert broker.redrive("q", progress=seen.append) == 5
    assert seen == [2, 4, 5]
    assert depths(broker) == {"ready": 5}


FILTERS: dict[str, tuple[Where, set[int]]] = {
    "reason": (Where(reason="rejected"), {0, 1, 2, 3, 4}),
    "another reason": (Where(reason="message_expired"), set()),
    "error": (Where(error="dd"), {1, 3}),
    "fingerprint": (Where(fingerprint="odd"), {1, 3}),
    "another fingerprint": (Where(fingerprint="od"), set()),
    "key": (Where(key="k4"), {4}),
    "group": (Where(group="g"), set()),
    "died before": (Where(died_before=1), set()),
    "died after": (Where(died_after=1), {0, 1, 2, 3, 4}),
}


@pytest.mark.parametrize(("where", "expected"), FILTERS.values(), ids=FILTERS)
def test_a_watched_redrive_takes_what_an_unwatched_one_takes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, where: Where, expected: set[int]
) -> None:
    monkeypatch.setattr("rowq.engine.arguments.PIECE", 2)
    buried = dead(broker, 5)
    assert broker.redrive("q", where=where, progress=lambda count: None) == len(expected)
    assert {place for place, id in enumerate(buried) if state_of(broker, id) == State.READY} == expected


def test_a_watched_redrive_asks_only_for_those_that_match(broker: Broker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.engine.arguments.PIECE", 2)
    dead(broker, 9)
    asked = len(proxy.questions)
    assert broker.redrive("q", where=Where(error="odd"), progress=lambda count: None) == 4
    methods = [question.partition(b" ")[0] for question in proxy.questions[asked:]]
    assert methods == [b"GET", b"POST", b"GET", b"POST", b"GET"]


def test_a_page_that_takes_several_requests_is_whole(broker: Broker, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.store.read.CANDIDATES", 2)
    monkeypatch.setattr("rowq.store.read._MOST_QUERIES", 1)
    buried = dead(broker, 7)
    asked = len(proxy.questions)
    assert ids(broker.browse("q", state="dead", fingerprint="odd", limit=3)) == [buried[1], buried[3], buried[5]]
    assert len(proxy.questions) == asked + 3


def test_a_watched_redrive_keeps_to_its_limit_and_its_ids(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowq.engine.arguments.PIECE", 2)
    buried = dead(broker, 6)
    assert broker.redrive("q", limit=3, progress=lambda count: None) == 3
    assert ids(broker.browse("q")) == buried[:3]
    assert broker.redrive("q", ids=[buried[5], buried[3], "nonsense"]) == 2
    assert ids(broker.browse("q", state="dead")) == [buried[4]]


def test_a_redrive_at_a_rate_takes_its_time(broker: Broker) -> None:
    dead(broker, 4)
    moments, began = [], time.monotonic()
    assert broker.redrive("q", rate=10, progress=lambda count: moments.append(time.monotonic() - began)) == 4
    assert all(moment >= number / 10 for number, moment in enumerate(moments))


def test_it_works_in_the_loop_that_servers_use(server: Server) -> None:
    async def ask() -> int:
        async with rowq.connect_async(server.url) as broker:
            await broker.send("q", "x")
            return len(await broker.receive("q", wait=1))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(ask()) == 1
