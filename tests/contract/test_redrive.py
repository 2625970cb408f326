"""Dead letters back into the queue: the same messages, in their old order."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, InvalidArgument, ManualClock, State, Where
from tests.support.life import bury, depths, drain, is_silent, state_of, take


def test_all_are_redriven(broker: Broker) -> None:
    for number in range(3):
        bury(broker, number)
    assert broker.redrive("q") == 3
    assert depths(broker) == {"ready": 3}
    assert drain(broker) == [0, 1, 2]


def test_a_queue_without_dead_letters_redrives_none(broker: Broker) -> None:
    broker.configure("empty")
    broker.send("q", "alive")
    assert broker.redrive("q") == broker.redrive("empty") == 0
    assert depths(broker) == {"ready": 1}


def test_it_is_one_line_among_the_actions(broker: Broker) -> None:
    for number in range(3):
        bury(broker, number)
    assert broker.redrive("q") == 3 and broker.redrive("q") == 0
    assert [(event.event, event.detail) for event in broker.actions("q")] == [("dead_redriven", "3 dead letters")]


def test_a_redriven_message_begins_anew(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", max_attempts=2)
    broker.nack(take(broker), reason="boom", delay=0)
    broker.nack(take(broker), reason="boom")
    clock.advance(10)
    broker.redrive("q")
    message = broker.get(id)
    assert (message.state, message.attempts) == (State.READY, 0)
    assert (message.reason, message.error, message.died_at) == (None, None, None)
    assert take(broker).attempt == 1


def test_id_and_options_are_kept(broker: Broker) -> None:
    options: dict[str, Any] = {"key": "k", "group": "g", "priority": 3, "headers": {"h": "1"}, "max_attempts": 7, "id": "mine"}
    before = broker.get(bury(broker, "x", **options))
    broker.redrive("q")
    after = broker.get("mine")
    for field in ("key", "group", "priority", "headers", "max_attempts", "payload", "sent_at"):
        assert getattr(after, field) == getattr(before, field)
    assert take(broker).id == "mine"


def test_the_old_place_is_taken_again(broker: Broker) -> None:
    bury(broker, "old")
    broker.send("q", "young")
    broker.redrive("q")
    assert drain(broker) == ["old", "young"]


def test_the_ttl_begins_anew(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x", ttl=10)
    clock.advance(11)
    broker.maintain()
    clock.advance(1_000)
    broker.redrive("q")
    assert broker.get(id).expires_at == clock.now() + 10_000
    clock.advance(9)
    delivery = take(broker)
    broker.nack(delivery, delay=0)
    clock.advance(2)
    assert is_silent(broker)
    assert broker.get(id).reason == "message_expired"


def test_only_the_named_are_redriven(broker: Broker) -> None:
    a, b, c = (bury(broker, name) for name in "abc")
    assert broker.redrive("q", ids=[c, a]) == 2
    assert [state_of(broker, id) for id in (a, b, c)] == [State.READY, State.DEAD, State.READY]


def test_ids_and_filters_narrow_each_other(broker: Broker) -> None:
    a, b, c = bury(broker, "a", reason="odd 1"), bury(broker, "b", reason="even 2"), bury(broker, "c", reason="odd 3")
    assert broker.redrive("q", ids=[a, b], where=Where(fingerprint="odd <number>")) == 1
    assert broker.redrive("q", ids=[c], where=Where(error="even")) == 0
    assert [state_of(broker, id) for id in (a, b, c)] == [State.READY, State.DEAD, State.DEAD]


def test_ids_that_are_not_dead_letters_of_the_queue_are_left_alone(broker: Broker) -> None:
    elsewhere = bury(broker, "x", "p")
    alive = broker.send("q", "x")
    assert broker.redrive("q", ids=[elsewhere, alive]) == 0
    assert (state_of(broker, elsewhere), state_of(broker, alive)) == (State.DEAD, State.READY)


def test_the_id_of_another_database_with_the_same_number_means_none_of_ours(broker: Broker) -> None:
    ours = broker.send("q", 1)
    broker.reject(broker.receive("q")[0])
    foreign = f"{int(ours[:8], 16) ^ 1:08x}{ours[8:]}"
    assert broker.redrive("q", ids=[foreign]) == 0
    assert broker.redrive("q", ids=[foreign, ours]) == 1


def test_no_ids_redrive_none(broker: Broker) -> None:
    bury(broker)
    assert broker.redrive("q", ids=[]) == 0
    assert depths(broker) == {"dead": 1}


def four_dead(broker: Broker, clock: ManualClock) -> dict[str, str]:
    buried = {"timeout": bury(broker, 1, reason="connect: timeout 30s", key="a")}
    clock.advance(10)
    buried["refused"] = bury(broker, 2, reason="connect: refused", group="g")
    clock.advance(10)
    buried["percent"] = bury(broker, 3, reason="100% broken_x")
    buried["expired"] = broker.send("q", 4, ttl=1)
    clock.advance(10)
    broker.maintain()
    return buried


START = 1_700_000_000_000

WHERES: dict[str, tuple[Where, set[str]]] = {
    "nothing set": (Where(), {"timeout", "refused", "percent", "expired"}),
    "reason": (Where(reason="message_expired"), {"expired"}),
    "another reason": (Where(reason="rejected"), {"timeout", "refused", "percent"}),
    "a reason nobody had": (Where(reason="deadline_exceeded"), set()),
    "error contains": (Where(error="connect:"), {"timeout", "refused"}),
    "error literally, percent": (Where(error="100%"), {"percent"}),
    "error is no pattern": (Where(error="%"), {"percent"}),
    "error is no wildcard": (Where(error="broken_"), {"percent"}),
    "error is not one character": (Where(error="t_meout"), set()),
    "key": (Where(key="a"), {"timeout"}),
    "group": (Where(group="g"), {"refused"}),
    "died before": (Where(died_before=START + 10_000), {"timeout"}),
    "died after": (Where(died_after=START + 15_000), {"percent", "expired"}),
    "all fields must match": (Where(reason="rejected", error="connect:", group="g"), {"refused"}),
    "fields that contradict": (Where(key="a", group="g"), set()),
}


@pytest.mark.parametrize(("where", "expected"), WHERES.values(), ids=WHERES)
def test_a_filter_says_which_are_redriven(broker: Broker, clock: ManualClock, where: Where, expected: set[str]) -> None:
    buried = four_dead(broker, clock)
    assert broker.redrive("q", where=where) == len(expected)
    assert {name for name, id in buried.items() if state_of(broker, id) == State.READY} == expected


def test_a_limit_takes_the_oldest(broker: Broker) -> None:
    buried = [bury(broker, number) for number in range(5)]
    assert broker.redrive("q", limit=2) == 2
    assert [state_of(broker, id) for id in buried] == [State.READY] * 2 + [State.DEAD] * 3


def test_a_limit_holds_beside_a_filter(broker: Broker) -> None:
    buried = [bury(broker, number, reason="odd" if number % 2 else "even") for number in range(6)]
    assert broker.redrive("q", where=Where(error="odd"), limit=2) == 2
    assert [id for id in buried if state_of(broker, id) == State.READY] == [buried[1], buried[3]]


def test_a_rate_redrives_all_in_the_end(broker: Broker, clock: ManualClock) -> None:
    for number in range(4):
        bury(broker, number)
    assert broker.redrive("q", rate=100) == 4
    clock.advance(1)
    assert drain(broker) == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [{"limit": -1}, {"limit": "2"}, {"rate": 0}, {"rate": -5}, {"rate": "fast"}, {"rate": float("nan")}])
def test_a_bad_limit_or_rate_redrives_none(broker: Broker, bad: Any) -> None:
    bury(broker)
    with pytest.raises(InvalidArgument):
        broker.redrive("q", **bad)
    assert depths(broker) == {"dead": 1}


def test_a_leased_dead_letter_is_left_alone(broker: Broker) -> None:
    id = bury(broker)
    delivery = take(broker, "q.dlq")
    assert broker.redrive("q") == broker.redrive("q", ids=[id]) == 0
    assert state_of(broker, id) == State.LEASED
    broker.ack(delivery)


def test_more_than_any_inner_batch_are_redriven(broker: Broker) -> None:
    broker.send_many("q", list(range(2_300)))
    while deliveries := broker.receive("q", max=1_000):
        broker.reject_many(deliveries)
    assert broker.redrive("q") == 2_300
    assert drain(broker) == list(range(2_300))


def test_a_message_may_die_and_be_redriven_again_and_again(broker: Broker) -> None:
    id = bury(broker)
    for _ in range(3):
        assert broker.redrive("q") == 1
        broker.reject(take(broker))
    assert state_of(broker, id) == State.DEAD
