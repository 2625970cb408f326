"""What is set in one process holds in the others, a second later at the latest."""

from __future__ import annotations

import rowq
from tests.rivals.process import Start
from tests.support.patience import eventually

SOON = 1.3
"""A second, and what it takes to tell. Whoever waits may look just before it is over, and then once more a second later."""


def test_a_pause_and_its_end_are_seen_by_other_processes(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    broker.send_many("q", range(1000))
    assert rival.ask("receive", ["q"], {})
    broker.pause("q")
    eventually(lambda: rival.ask("receive", ["q"], {}) == [], SOON)
    assert [rival.ask("receive", ["q"], {}) for _ in range(5)] == [[]] * 5
    broker.resume("q")
    eventually(lambda: rival.ask("receive", ["q"], {}), SOON)
    rival.finish()


def test_a_consumer_that_waits_at_a_paused_queue_is_served_when_another_process_resumes_it(
    start: Start, url: str, broker: rowq.Broker
) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    broker.pause("q")
    broker.send("q", "late")
    rival.tell("receive", ["q"], {"wait": 15})
    rival.await_said("waiting")
    assert not rival.said("answer")
    broker.resume("q")
    (deliveries,) = rival.await_said("answer", within=1 + SOON)[0]
    assert [delivery["payload"] for delivery in deliveries] == ["late"]
    rival.finish()


def test_a_limit_set_elsewhere_refuses_here(start: Start, url: str, broker: rowq.Broker) -> None:
    rival = start("obeying", url)
    rival.await_said("ready")
    assert rival.ask("send", ["q", 1], {}) != rowq.QueueFull.code
    broker.configure("q", max_depth=1)
    eventually(lambda: rival.ask("send", ["q", 2], {}) == rowq.QueueFull.code, SOON)
    broker.configure("q", max_depth=None)
    eventually(lambda: rival.ask("send", ["q", 3], {}) != rowq.QueueFull.code, SOON)
    rival.finish()
