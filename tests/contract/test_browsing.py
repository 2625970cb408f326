"""Looking at messages without taking them."""

from __future__ import annotations

from typing import Any

import pytest

from rowq import Broker, Draft, InvalidArgument, ManualClock, State
from tests.support.life import ids, one_of_each, payloads, take
from tests.support.row_names import told_with


def test_each_state_is_browsed(broker: Broker) -> None:
    each = one_of_each(broker)
    for state in State:
        (message,) = broker.browse("q", state=state)
        assert (message.id, message.state, message.payload) == (each[state], state, state.value)
        assert broker.get(message.id).state == state


def test_browsing_takes_nothing(broker: Broker) -> None:
    id = broker.send("q", "x")
    assert broker.browse("q") == broker.browse("q")
    assert take(broker).id == id


def test_a_browsed_message_tells_what_get_tells(broker: Broker) -> None:
    for id in one_of_each(broker).values():
        message = broker.get(id)
        (browsed,) = broker.browse("q", state=message.state)
        for field in message.__struct_fields__:
            if field != "cursor":
                assert getattr(browsed, field) == getattr(message, field), field


def test_messages_are_browsed_in_order_of_sending(broker: Broker) -> None:
    sent = broker.send_many("q", list(range(5)))
    assert ids(broker.browse("q")) == sent


def test_a_hundred_are_browsed_unless_more_are_asked_for(broker: Broker) -> None:
    broker.send_many("q", list(range(150)))
    assert payloads(broker.browse("q")) == list(range(100))
    assert len(broker.browse("q", limit=1_000)) == 150


@pytest.mark.parametrize("state", list(State))
def test_a_cursor_goes_on_behind_its_message(broker: Broker, state: State) -> None:
    broker.configure("q", keep="body")
    fill(broker, state)
    whole = ids(broker.browse("q", state=state))
    assert len(whole) == 7
    pages: list[list[str]] = []
    after = None
    while page := broker.browse("q", state=state, limit=3, after=after):
        pages.append(ids(page))
        after = page[-1].cursor
    assert pages == [whole[:3], whole[3:6], whole[6:]]


def fill(broker: Broker, state: State) -> None:
    """Seven messages in one state."""
    match state:
        case State.BLOCKED:
            broker.send_many("q", list(range(8)), group="g")
        case State.SCHEDULED:
            broker.send_many("q", [Draft(number, delay=60 + number % 3) for number in range(7)])
        case _:
            broker.send_many("q", list(range(7)))
    if state in (State.LEASED, State.DEAD, State.FINISHED):
        deliveries = broker.receive("q", max=7)
        if state == State.DEAD:
            broker.reject_many(deliveries)
        elif state == State.FINISHED:
            broker.ack_many(deliveries)


def test_a_cursor_survives_the_end_of_its_message(broker: Broker) -> None:
    a, b, c = broker.send_many("q", ["a", "b", "c"])
    (first,) = broker.browse("q", limit=1)
    broker.delete(a)
    assert ids(broker.browse("q", after=first.cursor)) == [b, c]


def test_a_cursor_sees_what_is_sent_later(broker: Broker) -> None:
    broker.send_many("q", ["a", "b"])
    cursor = broker.browse("q")[-1].cursor
    assert broker.browse("q", after=cursor) == []
    later = broker.send("q", "c")
    assert ids(broker.browse("q", after=cursor)) == [later]


@pytest.mark.parametrize("state", [State.DEAD, State.FINISHED])
def test_the_newest_come_first_where_that_is_asked(broker: Broker, state: State) -> None:
    broker.configure("q", keep="body")
    fill(broker, state)
    everything = broker.browse("q", state=state)
    pages, after = [], None
    while page := broker.browse("q", state=state, newest=True, after=after, limit=2):
        pages += page
        after = page[-1].cursor
    assert ids(pages) == ids(reversed(everything))


@pytest.mark.parametrize("state", [State.DEAD, State.FINISHED])
def test_a_cursor_is_a_place_in_both_directions(broker: Broker, state: State) -> None:
    broker.configure("q", keep="body")
    fill(broker, state)
    everything = broker.browse("q", state=state)
    for place, message in enumerate(everything):
        assert ids(broker.browse("q", state=state, after=message.cursor)) == ids(everything[place + 1 :])
        assert ids(broker.browse("q", state=state, after=message.cursor, newest=True)) == ids(reversed(everything[:place]))


def test_the_newest_dead_letter_is_the_one_that_died_last(broker: Broker, clock: ManualClock) -> None:
    first, second = (broker.send("q", payload) for payload in "ab")
    for delivery in reversed(broker.receive("q", max=2)):
        clock.advance(1)
        broker.reject(delivery)
    assert ids(broker.browse("q", state="dead", newest=True)) == [first, second]
    assert ids(broker.browse("q.dlq", newest=True, text="b")) == [second]


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.LEASED, State.BLOCKED])
def test_what_waits_has_no_newest(broker: Broker, state: State) -> None:
    with pytest.raises(InvalidArgument, match=f"not {state} ones"):
        broker.browse("q", state=state, newest=True)


def test_messages_of_a_key_are_found(broker: Broker) -> None:
    id = broker.send("q", "x", key="k")
    broker.send("q", "y", key="kk")
    broker.send("q", "z")
    assert ids(broker.browse("q", key="k")) == [id]
    assert broker.browse("q", key="nobody") == []


def test_messages_of_a_group_are_found(broker: Broker) -> None:
    broker.send_many("q", ["a", "b", "c"], group="g")
    broker.send("q", "other", group="h")
    assert payloads(broker.browse("q", group="g")) == ["a"]
    assert payloads(broker.browse("q", group="g", state="blocked")) == ["b", "c"]


TEXTS: dict[str, tuple[str, list[str]]] = {
    "a word": ("ada", ["to ada", "ada@example.com"]),
    "umlauts": ("grün", ["das ist grün"]),
    "a percent sign": ("100%", ["100% sure"]),
    "a percent sign alone": ("%", ["100% sure"]),
    "an underscore": ("a_b", ["a_b"]),
    "nothing": ("nowhere", []),
}


def test_messages_are_found_by_literal_text(broker: Broker) -> None:
    broker.send_many("q", ["to ada", "ada@example.com", "to bob", "das ist grün", "100% sure", "1000 sure", "a_b", "axb"])
    for text, expected in TEXTS.values():
        assert payloads(broker.browse("q", text=text)) == expected


def test_text_is_found_inside_a_json_value(broker: Broker) -> None:
    broker.send_many("q", [{"to": {"name": "ada"}}, {"to": {"name": "bob"}}])
    assert payloads(broker.browse("q", text="ada")) == [{"to": {"name": "ada"}}]


def test_messages_are_found_by_when_they_were_sent(broker: Broker) -> None:
    (sent_at,) = {broker.get(id).sent_at for id in one_of_each(broker).values()}
    for state in State:
        assert payloads(broker.browse("q", state=state, sent_after=sent_at)) == [state.value]
        assert payloads(broker.browse("q", state=state, sent_before=sent_at + 1)) == [state.value]
        assert broker.browse("q", state=state, sent_after=sent_at + 1) == broker.browse("q", state=state, sent_before=sent_at) == []


def test_a_span_of_time_includes_its_beginning_and_not_its_end(broker: Broker, clock: ManualClock) -> None:
    began = clock.now()
    for number in range(5):
        broker.send("q", number)
        clock.advance(1)
    assert payloads(broker.browse("q", sent_after=began + 1_000, sent_before=began + 3_000)) == [1, 2]
    assert payloads(broker.browse("q", sent_after=began + 1_001)) == [2, 3, 4]
    assert payloads(broker.browse("q", sent_before=began + 1_001)) == [0, 1]
    assert broker.browse("q", sent_after=began + 3_000, sent_before=began + 3_000) == []
    assert payloads(broker.browse("q", sent_after=0, sent_before=(1 << 62) - 1)) == [0, 1, 2, 3, 4]


def test_a_span_of_time_goes_on_behind_a_cursor(broker: Broker, clock: ManualClock) -> None:
    began = clock.now()
    for number in range(6):
        broker.send("q", number, priority=number % 2)
        clock.advance(1)
    sent: dict[str, Any] = {"sent_after": began + 1_000, "sent_before": began + 5_000}
    first = broker.browse("q", limit=3, **sent)
    assert payloads(first) == [1, 3, 2]
    assert payloads(broker.browse("q", after=first[-1].cursor, **sent)) == [4]


def test_a_retry_leaves_the_time_of_sending_as_it_was(broker: Broker, clock: ManualClock) -> None:
    id = broker.send("q", "x")
    sent_at = clock.now()
    clock.advance(10)
    broker.nack(take(broker), delay=0)
    assert ids(broker.browse("q", sent_before=sent_at + 1)) == [id]


def test_filters_narrow_each_other(broker: Broker) -> None:
    broker.send_many("q", [Draft("ada", key="1", group="g"), Draft("ada", key="2"), Draft("bob", key="3")])
    assert len(broker.browse("q", text="ada")) == 2
    assert len(broker.browse("q", text="ada", key="2")) == 1
    assert broker.browse("q", text="ada", key="3") == []


def test_a_filter_goes_on_behind_a_cursor(broker: Broker) -> None:
    broker.send_many("q", [f"{'ada' if number % 2 else 'bob'} {number}" for number in range(10)])
    first = broker.browse("q", text="ada", limit=2)
    assert payloads(first) == ["ada 1", "ada 3"]
    assert payloads(broker.browse("q", text="ada", after=first[-1].cursor)) == ["ada 5", "ada 7", "ada 9"]


def test_a_filter_fills_a_page_from_far_away(broker: Broker) -> None:
    broker.send_many("q", ["hay"] * 1_200 + ["needle"])
    assert payloads(broker.browse("q", text="needle", limit=1)) == ["needle"]


def test_other_queues_are_not_browsed(broker: Broker) -> None:
    broker.configure("q")
    broker.send("p", "x", key="k", group="g")
    assert broker.browse("q") == broker.browse("q", key="k") == broker.browse("q", group="g") == broker.browse("q", text="x") == []


BAD: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": -1},
    {"limit": 1_001},
    {"limit": "5"},
    {"limit": True},
    {"limit": 1.5},
    {"state": "nonsense"},
    {"state": ""},
    {"state": 5},
    {"after": "nonsense"},
    {"after": 5},
    {"key": 5},
    {"group": 5},
    {"text": 5},
    *({"state": "dead", "newest": value} for value in (1, None, "yes")),
    *({name: value} for name in ("sent_after", "sent_before") for value in (-1, 1 << 62, 1.5, True, "5", "")),
]


def test_a_bad_question_is_refused(broker: Broker) -> None:
    broker.send("q", "x")
    for bad in BAD:
        with told_with(bad), pytest.raises(InvalidArgument):
            broker.browse("q", **bad)


def test_a_cursor_of_another_state_is_refused(broker: Broker) -> None:
    """It is a place in an order that is not the one asked for."""
    broker.send_many("q", [1, 2])
    cursor = broker.browse("q")[0].cursor
    with pytest.raises(InvalidArgument, match="a cursor of ready messages, but dead messages were requested"):
        broker.browse("q", state="dead", after=cursor)
