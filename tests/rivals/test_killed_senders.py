"""kill -9 in the middle of sends: what was answered is there, and no batch is there in part."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import rowq
from tests.rivals.conftest import with_option
from tests.rivals.process import Rival, Start, kill_at_random
from tests.support.tables import faults_of

THREADS = 6


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.prove("12 processes each, 70 s in all; one round stands for it"))])
@pytest.mark.parametrize(
    ("kind", "option"),
    [
        *(("sqlite", "durability=send"), ("sqlite", "durability=normal")),
        *(("postgresql", "durability=full"), ("postgresql", "durability=normal")),
        ("mariadb", "timeout=30"),
    ],
    indirect=["kind"],
)
def test_every_answered_send_survives_a_kill_and_no_batch_is_half_written(start: Start, url: str, option: str, rounds: int) -> None:
    choose = random.Random(f"senders {option}")
    killed: list[Rival] = []
    for round in range(rounds):
        rivals = [start("sending", with_option(url, option), f"{round}-{number}", THREADS, 0) for number in range(2)]
        kill_at_random(rivals, "sent", choose)
        killed += rivals
        assert faults_of(url) == {}

    with rowq.connect(url) as broker:
        there = list(broker.walk("q"))
    answered = [id for rival in killed for _, ids in rival.said("sent") for id in ids]
    assert len(answered) >= 2 * rounds
    assert max(Counter(answered).values()) == 1
    ids = Counter(message.id for message in there)
    assert set(ids.values()) == {1}
    assert [id for id in answered if id not in ids] == []
    batches: dict[str, set[tuple[int, int]]] = {}
    for message in there:
        batches.setdefault(message.payload["batch"], set()).add((message.payload["place"], message.payload["of"]))
    assert [batch for batch, found in batches.items() if found != {(place, len(found)) for place in range(len(found))}] == []
    unanswered = len(batches) - sum(len(rival.said("sent")) for rival in killed)
    assert 0 <= unanswered <= 2 * THREADS * rounds, "a kill catches one call a thread at most"
