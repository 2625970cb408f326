"""kill -9 in the middle of receiving and acking: what was acked stays acked, all else comes out."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import rowq
from rowq.ids import origin_of
from tests.rivals.draining import drain_all
from tests.rivals.process import Rival, Start, kill_at_random
from tests.support.patience import eventually
from tests.support.tables import faults_of

MESSAGES = 1_000
"""For each round. On a machine that stands still for seconds all may be acked before the kill, and then the round shows less."""
LEASE = 1

with_rounds = pytest.mark.parametrize(
    "rounds", [1, pytest.param(6, marks=pytest.mark.prove("12 processes each, 80 s in all; one round stands for it"))]
)


@with_rounds
def test_what_was_acked_never_comes_back_and_all_else_comes_out(start: Start, url: str, broker: rowq.Broker, rounds: int) -> None:
    broker.configure("q", max_attempts=1000)
    sent = broker.send_many("q", range(MESSAGES * rounds))
    choose = random.Random("consumers")
    killed: list[Rival] = []
    for round in range(rounds):
        rivals = [start("consuming", url, f"{round}-{number}", 6, LEASE) for number in range(2)]
        kill_at_random(rivals, "acked", choose, most=40)
        killed += rivals
        assert faults_of(url) == {}
    got = [(id, attempt) for rival in killed for id, attempt in rival.said("got")]
    acked = {id: attempt for rival in killed for acks in rival.said("acked") for id, attempt in acks[0]}
    maybe_acked = {id for rival in killed for (ids,) in rival.said("acking") for id in ids} - acked.keys()
    assert acked
    assert max(Counter(got).values()) == 1, "two held the same message at the same attempt"
    assert len(acked) == sum(len(acks[0]) for rival in killed for acks in rival.said("acked")), "acked twice"
    assert [(id, attempt) for id, attempt in got if attempt > acked.get(id, attempt)] == []

    drained = Counter(delivery.id for delivery in drain_all(broker))
    assert drained.keys() & acked.keys() == set()
    assert set(drained.values()) <= {1}
    assert set(sent) - acked.keys() - drained.keys() <= maybe_acked
    assert broker.stats("q").dead == 0
    assert faults_of(url) == {}


@with_rounds
def test_no_group_is_stuck_and_no_key_waits_twice_after_kills(start: Start, url: str, broker: rowq.Broker, rounds: int) -> None:
    broker.configure("q", max_attempts=1000)
    choose = random.Random("mix")
    for round in range(rounds):
        rivals = [start("mixing", url, f"{round}-{number}", 3, 0.2) for number in range(2)]
        kill_at_random(rivals, "done", choose, least=20, most=120)
        assert faults_of(url) == {}
        waiting = broker.walk("q", states=["ready", "scheduled", "blocked"])
        keys = Counter(message.key for message in waiting if message.key is not None)
        assert set(keys.values()) <= {1}

    broker.send_many(
        "q", [rowq.Draft(0, group="group-0"), rowq.Draft(0, group="group-0")]
    )  # as many as there are, at whatever moment the kill came
    broker.reject(eventually(lambda: broker.receive("q"))[0])
    assert broker.stats("q").blocked > 0
    _assert_comes_out_in_order(drain_all(broker))
    assert faults_of(url) == {}
    dead = broker.stats("q").dead
    assert 0 < dead == broker.redrive("q")
    drain_all(broker)
    assert (broker.stats("q").depth, broker.stats("q").dead) == (0, 0)
    assert faults_of(url) == {}


def _assert_comes_out_in_order(drained: list[rowq.Delivery]) -> None:
    """By their numbers: the clocks of two processes differ by a moment, and so may the times that ids begin with."""
    groups: dict[str, list[int]] = {}
    for delivery in drained:
        origin = origin_of(delivery.id)
        if delivery.group is not None and origin is not None:
            groups.setdefault(delivery.group, []).append(origin.seq)
    assert groups
    assert {group: seqs for group, seqs in groups.items() if seqs != sorted(seqs)} == {}
