"""The order is the same: priorities, places to which messages came back, groups with their heads and followers, keys."""

from __future__ import annotations

import pytest

from rowq import Draft, IdTaken, State
from tests.support.life import bury, drain, take
from tests.transfer.journey import Journey, everything, order


def test_ready_messages_keep_their_order(journey: Journey) -> None:
    journey.source.send_many("q", [Draft(n, priority=n * 7 % 5 - 2) for n in range(50)])
    before = order(journey.source, "ready")
    journey.copy()
    assert order(journey.target, "ready") == before


def test_messages_that_came_back_keep_their_new_places(journey: Journey) -> None:
    journey.source.configure("q", order="ready")
    journey.source.send_many("q", range(6))
    for delivery in journey.source.receive("q", max=3):
        journey.source.nack(delivery, delay=0)
    journey.source.send("q", 6)
    assert [message.payload for message in journey.source.browse("q")] == [3, 4, 5, 0, 1, 2, 6]
    journey.copy()
    journey.target.send("q", 7)
    assert drain(journey.target) == [3, 4, 5, 0, 1, 2, 6, 7]


def test_a_leased_message_returns_to_its_place(journey: Journey) -> None:
    journey.source.send_many("q", range(4))
    take(journey.source)
    journey.copy()
    assert drain(journey.target) == [0, 1, 2, 3]


def test_a_leased_message_goes_to_the_end_where_the_queue_says_so(journey: Journey) -> None:
    journey.source.configure("q", order="ready")
    journey.source.send_many("q", range(4))
    take(journey.source)
    journey.copy()
    assert drain(journey.target) == [1, 2, 3, 0]


def test_groups_keep_their_order_and_go_on_working(journey: Journey) -> None:
    drafts = [Draft([group, n], group=group, priority=n % 3) for n in range(5) for group in ("a", "b", "c")]
    journey.source.send_many("q", drafts)
    journey.source.ack(take(journey.source))
    take(journey.source, lease=3600)
    journey.copy()
    journey.target.send_many("q", [Draft([group, 5], group=group) for group in ("a", "b", "c")])
    seen = drain(journey.target)
    assert len(seen) == 17
    for group in ("a", "b", "c"):
        places = [n for name, n in seen if name == group]
        assert places == sorted(places)


def test_a_group_waits_for_a_head_that_is_delayed(journey: Journey) -> None:
    journey.source.send_many("q", [Draft("head", group="g", delay=3600), Draft("follower", group="g")])
    journey.copy()
    assert journey.target.receive("q") == []
    assert journey.target.stats("q").scheduled == journey.target.stats("q").blocked == 1


def test_a_dead_letter_that_came_back_stands_before_the_one_that_was_at_work(journey: Journey) -> None:
    """At the source it waits behind a younger one, which is leased; when that arrives as ready, it is younger again."""
    old = bury(journey.source, "old", group="g")
    journey.source.send_many("q", [Draft("young", group="g"), Draft("youngest", group="g")])
    assert take(journey.source, lease=3600).payload == "young"
    assert journey.source.redrive("q", ids=[old]) == 1
    assert journey.source.get(old).state == State.BLOCKED
    journey.copy()
    assert drain(journey.target) == ["old", "young", "youngest"]


def test_a_waiting_message_is_still_replaced_by_its_key(journey: Journey) -> None:
    ids = [journey.source.send("q", n, key=f"k{n}", delay=60 * n) for n in range(3)]
    journey.copy()
    assert [journey.target.send("q", f"new {n}", key=f"k{n}") for n in range(3)] == ids
    assert [journey.target.get(id).payload for id in ids] == ["new 0", "new 1", "new 2"]


def test_a_message_that_was_replaced_after_it_was_copied_is_replaced_at_the_target(journey: Journey) -> None:
    """Whoever sent it had an answer."""
    journey.source.configure("q", refresh_ttl=True)
    journey.source.send("q", "oldest", key="k3", ttl=3600, delay=600)
    ids = [journey.source.send("q", "old", key=f"k{n}", ttl=3600, delay=600 * (n % 2), group="g" if n == 2 else None) for n in range(4)]
    with journey.begun() as copier:
        for stage in copier.stages():
            if stage.title == "history":
                assert journey.source.send("q", b"new", key="k0", headers={"h": "1"}) == ids[0]
                assert journey.source.send("q", "new", key="k1") == ids[1]
            stage.run(lambda done: None)
        copier.finish()
    assert journey.source.send("q", "newer", key="k2") == ids[2]
    before = everything(journey.source)
    journey.copy()
    assert everything(journey.target) == before
    assert [before[id]["payload"] for id in ids] == [b"new", "new", "newer", "old"]
    assert [[event.event for event in journey.target.audit(id)] for id in ids] == [["enqueued", "replaced"]] * 4


def test_a_message_that_was_delivered_at_the_target_is_not_replaced_any_more(some_journey: Journey) -> None:
    id = some_journey.source.send("q", "old", key="k")
    some_journey.copy()
    assert take(some_journey.target).id == id
    some_journey.source.send("q", "new", key="k")
    some_journey.copy()
    assert some_journey.target.get(id).payload == "old"


def test_a_leased_message_whose_key_has_a_successor_gives_way_to_it(journey: Journey) -> None:
    """As it would when its lease ends: one message waits under a key."""
    journey.source.configure("q", keep="outcome")
    first = journey.source.send("q", "first", key="k", group="g")
    take(journey.source, lease=3600)
    second = journey.source.send("q", "second", key="k", group="g")
    journey.copy()
    assert journey.target.get(first).outcome == "superseded"
    assert journey.target.send("q", "third", key="k") == second
    assert drain(journey.target) == ["third"]
    assert [event.event for event in journey.target.audit(first)] == ["enqueued", "delivered", "superseded"]


def test_two_leased_messages_of_a_key_come_to_one(journey: Journey) -> None:
    journey.source.configure("q", audit=False)
    journey.source.send("q", "first", key="k")
    take(journey.source, lease=3600)
    second = journey.source.send("q", "second", key="k")
    take(journey.source, lease=3600)
    (report,) = journey.copy()
    assert order(journey.target, "ready") == [second]
    assert not report.agrees


def test_a_message_that_must_not_come_twice_ends_instead(journey: Journey) -> None:
    journey.source.configure("q", delivery="at_most_once")
    id = journey.source.send("q", "once", keys_if_undelivered=["lost"], group="g")
    journey.source.send("q", "next", group="g")
    take(journey.source, lease=3600)
    journey.copy()
    message = journey.target.get(id)
    assert (message.state, message.reason, message.error) == (State.DEAD, "max_attempts_reached", "it was leased when it was copied")
    (entry,) = journey.target.keys()
    assert (entry.key, entry.value, entry.id) == (["lost"], "once", id)
    assert drain(journey.target) == ["next"]


def test_one_that_asked_for_at_most_once_ends_too(short_journey: Journey) -> None:
    short_journey.source.configure("q", on_exhausted="fail")
    id = short_journey.source.send("q", "once")
    take(short_journey.source, lease=3600, delivery="at_most_once")
    short_journey.copy()
    assert (short_journey.target.get(id).state, short_journey.target.get(id).outcome) == (State.FINISHED, "failed")


def test_times_are_kept_and_go_on(some_journey: Journey) -> None:
    ids = [some_journey.source.send("q", n, ttl=0.001, deadline=None) for n in range(3)]
    later = some_journey.source.send("q", "later", delay=0.001)
    some_journey.copy()
    done = some_journey.target.maintain()
    assert (done.expired, done.due) == (3, 1)
    assert [some_journey.target.get(id).reason for id in ids] == ["message_expired"] * 3
    assert some_journey.target.get(later).state == State.READY


def test_what_has_ended_at_the_target_meanwhile_does_not_come_back(some_journey: Journey) -> None:
    some_journey.source.configure("q", on_expire="delete")
    ids = some_journey.source.send_many("q", [Draft("short", ttl=0.001), Draft("long")])
    with some_journey.begun() as copier:
        for stage in copier.stages():
            stage.run(lambda done: None)
        assert some_journey.target.maintain().expired == 1
        (report,) = copier.finish()
    assert list(everything(some_journey.target)) == ids[1:]
    assert not report.agrees


def test_senders_at_the_target_do_not_get_in_the_way(some_journey: Journey) -> None:
    """They come while the copy is under way: after it has begun, and before the messages arrive."""
    some_journey.source.send_many("q", [Draft("old", key="k", group="g"), Draft("older", group="g"), Draft("plain")])
    with some_journey.begun() as copier:
        newer = some_journey.target.send("q", "new", key="k", group="g")
        some_journey.target.send("q", "last", group="g")
        some_journey.go_on(copier)
    assert some_journey.target.get(newer).payload == "new"
    assert drain(some_journey.target) == ["older", "plain", "new", "last"]


def test_an_id_that_another_message_has_is_refused_and_nothing_is_lost(some_journey: Journey) -> None:
    some_journey.source.send_many("q", [Draft(n, id=f"id-{n}") for n in range(3)])
    some_journey.target.send("other", "mine", id="id-1")  # which is of another queue, and does not matter
    with some_journey.begun() as copier:
        some_journey.target.send("q", "mine", id="id-1")
        with pytest.raises(IdTaken, match="'id-1'"):
            some_journey.go_on(copier)
    assert some_journey.target.stats("q").ready == 1
    some_journey.target.delete("id-1", queue="q")
    some_journey.copy()
    assert everything(some_journey.target, "q") == everything(some_journey.source, "q")
