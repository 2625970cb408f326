"""A consumer that waits in another process hears of a message. It is not left to the look that every consumer takes once a second."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import rowq
from tests.rivals.application import own_connection
from tests.rivals.process import Rival, Start

ROUNDS = 5
"""The first message may be found by the look that comes before the waiting, and the next when the process begins to listen."""


def assert_served(rival: Rival, send: Callable[[str], object]) -> None:
    for payload in map(str, range(ROUNDS)):
        waits, answers = len(rival.said("waiting")), len(rival.said("answer"))
        rival.tell("receive", ["q"], {"wait": 30})
        rival.await_said("waiting", waits + 1)
        send(payload)
        (deliveries,) = rival.await_said("answer", answers + 1)[-1]
        assert [delivery["payload"] for delivery in deliveries] == [payload], "it was not served while it waited"


def test_a_consumer_in_another_process_hears_of_a_send(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url, "listening")
    rival.await_said("ready")
    assert_served(rival, lambda payload: broker.send("q", payload))
    rival.finish()


def test_a_consumer_hears_of_what_the_application_committed_itself(start: Start, kind: str, url: str, broker: rowq.Broker) -> None:
    """PostgreSQL tells of what brokers commit; what an application commits is found by the look once a second."""
    rival = start("obeying", url, *([] if kind == "postgresql" else ["listening"]))
    rival.await_said("ready")
    with closing(own_connection(url)) as own:

        def send(payload: str) -> None:
            broker.within(own).send("q", payload)
            own.commit()

        assert_served(rival, send)
        broker.within(own).send("q", "undone")
        own.rollback()
        assert rival.ask("receive", ["q"], {"wait": 0.2}) == [], "it hears nothing before the application commits"
        send("done")
        assert [delivery["payload"] for delivery in rival.ask("receive", ["q"], {"max": 10, "wait": 30})] == ["done"]
    rival.finish()
