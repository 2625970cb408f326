"""Operators, expiry and consumers at the same messages: everybody gets an answer, and nothing is left in between."""

from __future__ import annotations

from collections import Counter

import rowq
from tests.rivals.draining import drain_all
from tests.rivals.process import Rival, Start
from tests.rivals.watching import watched
from tests.support.patience import eventually
from tests.support.tables import faults_of

DEEDS = 25
MESSAGES = 60


def test_redrive_purge_delete_and_expiry_get_along_with_consumers(begin: Start, url: str) -> None:
    with rowq.connect(url) as broker, watched(url):
        broker.configure("q", max_attempts=1000)
        mixing = [begin("mixing", url, f"worker-{number}", 2, 0.2) for number in range(2)]
        meddling = [begin("meddling", url, f"operator-{number}", 2) for number in range(2)]
        for rival in meddling:
            rival.await_said("did", DEEDS)
        eventually(lambda: _have_met_messages(meddling))
        for rival in [*mixing, *meddling]:
            rival.finish()
        broker.redrive("q")
        drain_all(broker)
        assert broker.stats("q").depth == 0


def _have_met_messages(operators: list[Rival]) -> bool:
    """Each of their deeds has found something to do."""
    met: Counter[str] = Counter()
    for rival in operators:
        for deed, count in rival.said("did"):
            met[deed] += count
    return all(met[deed] for deed in ("redrive", "purge", "delete", "expire", "maintain", "work_on_dead_letters"))


def test_a_delete_finds_a_message_wherever_consumers_have_moved_it_meanwhile(begin: Start, url: str) -> None:
    """They receive and hand back without end: the message is always there, in one state or on its way to the next."""
    with rowq.connect(url) as broker:
        broker.configure("q", max_attempts=0)
        ids = [broker.send("q", number, key=f"key-{number}", group=f"group-{number % 20}") for number in range(MESSAGES)]
        handlers = [begin("handling", url, f"handler-{number}", 3, 100) for number in range(2)]
        for handler in handlers:
            handler.await_said("held", 20)
        for id in ids:
            broker.delete(id)
        assert broker.stats("q").depth == 0
        for handler in handlers:
            handler.finish()
    assert faults_of(url) == {}
