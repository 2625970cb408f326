"""Ctrl-C in a program of many threads: those that were not meant go on, and nothing that was answered is lost."""

from __future__ import annotations

import random
import signal
import threading

import pytest

import rowq
from tests.rivals.process import Start
from tests.support.tables import faults_of


@pytest.mark.parametrize("interrupts", [15, pytest.param(60, marks=pytest.mark.prove("four times as long; fifteen stand for it"))])
def test_a_thread_that_is_interrupted_delays_no_other_thread(start: Start, url: str, interrupts: int) -> None:
    rival = start("interrupted", url, interrupts)
    choose = random.Random("interrupts")
    moment = threading.Event()
    for times in range(1, interrupts + 1):
        rival.await_said("ready", times)
        moment.wait(choose.random() * 0.02)
        rival.signal(signal.SIGINT)
    assert rival.await_said("stuck", within=90) == [[0]], "threads that were never answered"
    rival.finish()
    assert rival.said("closed")

    sent, acking, acked = ({id for (id,) in rival.said(word)} for word in ("sent", "acking", "acked"))
    assert sent
    assert acked
    with rowq.connect(url) as broker:
        there = {message.id for message in broker.walk("q")}
    assert there & acked == set(), "acked, and yet there"
    assert sent - there - acking == set(), "answered, and yet gone"
    assert faults_of(url) == {}
