"""A broker does not survive a fork, and says so; the parent does not notice."""

from __future__ import annotations

from collections import Counter

import rowq
from tests.rivals.process import Rival, Start
from tests.support.tables import faults_of

VERBS = ("send", "receive", "ack", "stats", "walk", "configure", "maintain")


def forked(start: Start, url: str, how: str) -> Rival:
    """A process that has forked and come to a good end, and all it was answered is there."""
    rival = start("forking", url, how)
    rival.finish(100)
    with rowq.connect(url) as broker:
        assert Counter(message.id for message in broker.walk("q")) == Counter(id for (id,) in rival.said("sent"))
    assert faults_of(url) == {}
    return rival


def test_a_forked_child_is_refused_by_its_parents_broker_and_the_parent_goes_on(start: Start, url: str) -> None:
    rival = forked(start, url, "in_use")
    assert Counter(code for (code,) in rival.said("child ended")) == {0: 12}
    assert Counter((verb, code) for verb, code in rival.said("child")) == {(verb, rowq.BrokerClosed.code): 12 for verb in VERBS}


def test_a_child_forked_while_another_thread_held_a_lock_does_not_hang(start: Start, url: str) -> None:
    rival = forked(start, url, "between_locks")
    ended = rival.said("child ended")
    assert ended == [[0]] * len(ended)
    assert len(ended) >= 2


def test_a_child_with_a_broker_of_its_own_loses_nothing_when_the_parent_closes(start: Start, url: str) -> None:
    """SQLite remembers locks by process: in a child of a fork it believes to hold those of the parent."""
    rival = forked(start, url, "connecting")
    assert rival.said("child ended") == [[0]]
