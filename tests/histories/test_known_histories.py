"""Histories that once went wrong, or nearly did: each is told again, step by step, against the model."""

from __future__ import annotations

import pytest

from tests.histories.events import Event, Extend, Maintain, Purge, Redrive, Reopen, Send, Settle, Settlement, Time, Transaction
from tests.histories.test_histories import EXAMPLES, SETTINGS
from tests.histories.world import World

NACK, REJECT = Settlement("nack"), Settlement("reject")
TAKE = Transaction("q", 1, None, [])
TAKE_DEAD = Transaction("q.dlq", 1, None, [])

HISTORIES: dict[str, tuple[str, list[Event]]] = {
    "a send finds its key on a message past its time": (
        "the defaults",
        [Send([{"key": "k1", "ttl": 2}]), Time(3), Send([{"key": "k1"}]), TAKE],
    ),
    "a send finds its key on the head of its group, past its time": (
        "the defaults",
        [Send([{"key": "k1", "ttl": 2, "group": "g1"}, {"group": "g1"}]), Time(3), Send([{"key": "k1", "group": "g1"}]), TAKE],
    ),
    "a redrive fills a queue over its limit": (
        "short of room",
        [
            *(Send([{}, {}]), Send([{}, {}]), Transaction("q", 2, None, [REJECT, REJECT]), Transaction("q", 2, None, [REJECT, REJECT])),
            *(Send([{"key": "k1"}]), Redrive(True), Send([{}]), Send([{"key": "k1"}]), TAKE, Settle(1, Settlement("ack")), Send([{}])),
        ],
    ),
    "a full queue takes a replacement": (
        "short of room",
        [Send([{"key": "k1"}, {}]), Send([{}, {}]), Send([{"key": "k1"}]), Send([{"key": "k1"}, {}])],
    ),
    "an extension of a dead letter before its deadline": (
        "the defaults",
        [Send([{"deadline": 10}]), Transaction("q", 1, None, [REJECT]), TAKE_DEAD, Extend(1, None), Time(15), Settle(1, NACK)],
    ),
    "a failure told after the deadline": ("at most once", [Send([{"deadline": 10}]), TAKE, Time(15), Settle(1, NACK), Redrive(True)]),
    "an older message of a group comes back before a head that waits": (
        "the defaults",
        [Send([{"group": "g1"}]), Transaction("q", 1, None, [REJECT]), Send([{"group": "g1", "delay": 20}]), Redrive(True), TAKE, Time(30)],
    ),
    "an older message of a group comes back behind a head that is leased": (
        "the defaults",
        [Send([{"group": "g1"}]), Transaction("q", 1, None, [REJECT]), Send([{"group": "g1"}]), TAKE, Redrive(True), Settle(1, NACK), TAKE],
    ),
    "a head that comes back with a delay lets an older message of its group go first": (
        "the defaults",
        [
            Send([{"group": "g1"}]),
            Transaction("q", 1, None, [REJECT]),
            Send([{"group": "g1"}] * 2),
            TAKE,
            Redrive(True),
            Time(60),
            TAKE,
            TAKE,
        ],
    ),
    "who comes back under a key that is taken disturbs no group": (
        "everything kept",
        [
            *(Send([{"key": "k1", "group": "g1", "ttl": 2}]), Time(3), Send([{"key": "k1"}, {"delay": 2, "group": "g1"}])),
            *(Time(3), Redrive(True), TAKE),
        ],
    ),
    "an expired head gives way to a follower of higher rank": (
        "the defaults",
        [Send([{"group": "g1", "ttl": 2}, {}, {"group": "g1", "priority": 1}]), Time(3), Transaction("q", 3, None, [])],
    ),
    "a replacement names a group that is nobody's": (
        "the defaults",
        [Send([{"key": "k1"}]), Send([{"key": "k1", "group": "g1"}]), Send([{"key": "k2"}, {"key": "k2", "group": "g2"}]), TAKE, TAKE],
    ),
    "the ready of a group are purged and the next is called up": (
        "the defaults",
        [Send([{"group": "g1"}] * 3), Purge({"ready"}), TAKE, Purge({"leased"}), Reopen(), TAKE],
    ),
    "a lease that ran out a moment ago is not taken away": (
        "the defaults",
        [Send([{}]), Transaction("q", 1, 1, []), Time(1.5), Maintain(), Settle(1, Settlement("ack"))],
    ),
}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("history", HISTORIES)
def test_a_known_history_is_as_the_model_says(history: str, kind: str) -> None:
    settings, events = HISTORIES[history]
    world = World(SETTINGS[settings], kind)
    try:
        for event in events:
            event.happen(world)
            world.check()
            world.check_counts()
            world.check_tables()
        world.drain()
    finally:
        world.close()
