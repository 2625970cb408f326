"""What is left of short lives after a fault, held against what was answered and what is promised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import rowq
from rowq.ids import origin_of
from tests.disasters.lives import STEPS
from tests.rivals.process import Rival
from tests.support.tables import faults_of, tables_of


def undone_of(rival: Rival, url: str, kept: Collection[str], until: int | None = None) -> Counter[str]:
    """How many of the calls that a process of tests.disasters.living was answered are as if they had never been made, by their class.

    `kept` are the classes of which there must be none. That, and all that must not be whatever is promised, is an AssertionError. What was
    answered later than `until` does not count.
    """
    assert faults_of(url) == {}
    done, asked = _lives(rival.said("done", until=until)), _lives(rival.said("asked"))
    assert done, "nothing was answered"
    with rowq.connect(url, maintenance=False) as broker:
        stories = _stories(url, done)
        states = {message.id: str(message.state) for message in broker.walk()}
        undone: Counter[str] = Counter()
        for id, answered in done.items():
            undone += undone_steps(answered, asked.get(id, ()), stories.get(id, ()), states.get(id), kept)
        undone["decision"] += _undone_settings(broker, rival, kept, until)
        _check_at_most_once(broker, {id for id, steps in done.items() if "receive at most once" in steps}, kept)
    return undone


def undone_steps(
    answered: Sequence[str], asked: Sequence[str], story: Sequence[str], state: str | None, kept: Collection[str]
) -> Counter[str]:
    """Of one message: what the audit tells must be the beginning of its life, and its state what comes of that. A life ends nowhere
    before the last answered call of a class that is kept, and goes nowhere that nobody asked for."""
    life = ["send", *asked]
    steps = _steps_told(life, story)
    promised = max((place for place, step in enumerate(answered, 1) if STEPS[step].kind in kept), default=0)
    assert steps >= promised, f"{answered} was answered, and there is only {life[:steps]}"
    expected = STEPS[life[steps - 1]].state if steps else None
    assert state == expected, f"after {life[:steps]} a message is {expected or 'gone'}, and this one is {state or 'gone'}"
    return Counter(STEPS[step].kind for step in answered[steps:])


def _steps_told(life: Sequence[str], story: Sequence[str]) -> int:
    told: list[str] = []
    for number, step in enumerate(["", *life]):
        told += STEPS[step].events if step else ()
        if told == list(story):
            return number
    raise AssertionError(f"nobody asked for {list(story)}: the life was {list(life)}")


def _lives(lines: list[list[object]]) -> dict[str, list[str]]:
    lives: defaultdict[str, list[str]] = defaultdict(list)
    for step, ids in lines:
        assert isinstance(step, str) and isinstance(ids, list)
        for id in ids:
            lives[id].append(step)
    return lives


def _stories(url: str, ids: Collection[str]) -> Mapping[str, list[str]]:
    tables = tables_of(url)
    try:
        stories = tables.stories()
    finally:
        tables.close()
    seqs = {origin.seq: id for id in ids if (origin := origin_of(id)) is not None}
    return {seqs[seq]: story for seq, story in stories.items() if seq in seqs}


def _undone_settings(broker: rowq.Broker, rival: Rival, kept: Collection[str], until: int | None) -> int:
    asked, answered = rival.said("configuring"), rival.said("configured", until=until)
    if not asked:
        return 0
    (queue, most), least = asked[-1], answered[-1][1] if answered else 0
    try:
        lease = (broker.settings(queue).lease_ms or 0) // 1000
    except rowq.QueueNotFound:
        lease = 0
    assert lease <= most
    assert lease >= least or "decision" not in kept, f"the lease was set to {least}, and is {lease}"
    return max(least - lease, 0)


def _check_at_most_once(broker: rowq.Broker, handed_out: Collection[str], kept: Collection[str]) -> None:
    """What was handed out is never handed out again."""
    if "decision" not in kept:
        return
    for queue in {stats.queue for stats in broker.queues() if stats.queue.endswith("-strict")}:
        while deliveries := broker.receive(queue, max=1000):
            assert not {delivery.id for delivery in deliveries} & set(handed_out)
