"""Everything of a queue arrives: every state, every option, its settings, its audit, its undelivered keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rowq
from rowq import Draft, MessageNotFound, State
from rowq.engine.operation import SingleCall
from rowq.model.draft import Prepared
from rowq.store.call import Send
from rowq.transfer.copy import Counts
from tests.support.life import bury, drain, take
from tests.transfer.journey import Journey, copy, everything, order

OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    ({"text": "日本 \u2028 👩‍🚀", "big": 2**60, "float": 0.1, "none": None}, {"priority": -3, "headers": {"a": "ü", "b": ""}}),
    (bytes(range(256)), {"backoff": rowq.exponential(1, cap=60, jitter=0.5), "keys_if_undelivered": ["one", ["path", 2]]}),
    (b"", {"backoff": [1, 5.5], "max_attempts": 7}),
    (None, {"delay": 3600, "backoff": rowq.linear(2), "ttl": 86_400}),
    ("", {"deadline": 7200, "ttl": 3_600}),
    ("x" * 200_000, {"key": "ключ", "group": "группа", "priority": 2**31 - 1}),
    (["follower"], {"group": "группа", "key": "k" * 255, "id": "an:own.id_1-"}),
    (0, {"key": "waits", "delay": 60, "id": "delayed"}),
    (1, {"at": datetime.now(UTC) + timedelta(days=1)}),
]

SETTINGS: dict[str, Any] = {
    "lease": 77,
    "max_attempts": 9,
    "backoff": rowq.exponential(2, cap=50),
    "keep": "body",
    "retention": 12345,
    "dlq_ttl": 54321,
    "max_depth": 3,
    "schema": {"type": ["object", "number", "string", "array", "null"]},
    "delivery": "at_least_once",
    "refresh_ttl": True,
}


def test_messages_of_one_id_arrive_in_their_queues(some_journey: Journey) -> None:
    for queue in ("p", "q"):
        some_journey.source.configure(queue, keep="body")
        some_journey.source.send(queue, f"done in {queue}", id="done")
        drain(some_journey.source, queue)
        some_journey.source.send(queue, queue, id="mine", keys_if_undelivered=[queue])
    some_journey.copy()
    for queue in ("p", "q"):
        assert some_journey.target.get("mine", queue=queue).payload == queue
        assert some_journey.target.get("done", queue=queue).payload == f"done in {queue}"
    some_journey.copy(remove=True)
    assert [some_journey.source.stats(queue).depth for queue in ("p", "q")] == [0, 0]
    assert [drain(some_journey.target, queue) for queue in ("p", "q")] == [["p"], ["q"]]


def test_every_option_arrives(journey: Journey) -> None:
    for payload, options in OPTIONS:
        journey.source.send_many("q", [Draft(payload, **options)])
    before = everything(journey.source)
    journey.copy()
    assert everything(journey.target) == before
    assert all(journey.target.get(id).id == id for id in before)
    types = [type(message["payload"]) for message in before.values()]
    assert [type(message["payload"]) for message in everything(journey.target).values()] == types


def test_every_state_arrives_with_what_happened_there(journey: Journey) -> None:
    ids = one_of_each(journey.source)
    before, audits = everything(journey.source), {id: journey.source.audit(id) for id in ids.values()}
    journey.copy()
    after = everything(journey.target)
    leased = before.pop(ids["leased"]) | {"state": State.READY, "attempts": 2, "lease_until": None, "leased_at": None, "consumer": None}
    assert after.pop(ids["leased"]) == leased
    leased_dead = before.pop(ids["leased dead"]) | {"state": State.DEAD, "lease_until": None, "leased_at": None, "consumer": None}
    assert after.pop(ids["leased dead"]) == leased_dead | {"due_at": journey.target.get(ids["leased dead"]).due_at}
    assert after == before
    assert {id: journey.target.audit(id) for id in audits} == audits
    for state in ("ready", "scheduled", "blocked", "finished"):
        assert set(order(journey.source, state)) <= set(order(journey.target, state))


def test_all_counts_agree_and_are_told(journey: Journey) -> None:
    one_of_each(journey.source)
    (report,) = journey.copy()
    source, target = journey.source.stats("q"), journey.target.stats("q")
    assert report.agrees
    assert (report.copied, report.later, report.removed) == (9, 0, 0)
    assert report.source == counts(source)
    assert report.target == counts(target)
    assert (target.ready, target.leased, target.depth) == (source.ready + source.leased, 0, source.depth)
    assert (target.dead, target.finished) == (source.dead, source.finished) == (2, 2)


def test_settings_arrive_and_the_target_is_open(journey: Journey) -> None:
    journey.source.configure("q", **SETTINGS)
    journey.source.send_many("q", range(3))
    settings = journey.source.settings("q")
    journey.copy()
    assert journey.target.settings("q") == settings
    assert not journey.target.stats("q").paused
    assert drain(journey.target) == [0, 1, 2]
    assert journey.source.stats("q").paused
    assert journey.source.stats("q").ready == 3
    assert journey.source.receive("q") == []


@pytest.mark.parametrize("paused", [None, False, True])
def test_the_target_is_as_the_source_was(short_journey: Journey, paused: bool | None) -> None:
    short_journey.source.send("q", 1)
    short_journey.source.configure("q", paused=paused)
    short_journey.copy()
    assert short_journey.target.settings("q").paused is paused


def test_messages_that_are_gone_are_found_in_the_audit(journey: Journey) -> None:
    ids = [journey.source.send("q", n) for n in range(3)] + [journey.source.send("q", "own", id="mine")]
    drain(journey.source)
    audits = [journey.source.audit(id) for id in ids]
    assert [event.event for event in audits[0]] == ["enqueued", "delivered", "acked"]
    journey.copy()
    assert [journey.target.audit(id) for id in ids] == audits
    for id in ids:
        with pytest.raises(MessageNotFound):
            journey.target.get(id)
    with pytest.raises(rowq.IdTaken):
        journey.target.send("q", "again", id="mine")
    actions = {event.event for event in journey.target.actions("q")}
    assert {"paused", "copied"} <= actions


def test_the_audit_is_left_behind_on_demand(short_journey: Journey) -> None:
    short_journey.source.send("q", "gone")
    drain(short_journey.source)
    id = short_journey.source.send("q", 1)
    assert short_journey.source.audit(id)
    short_journey.copy(with_audit=False)
    assert short_journey.target.audit(id) == []
    assert short_journey.target.get(id).payload == 1


def test_undelivered_keys_arrive(journey: Journey) -> None:
    dead = bury(journey.source, {"a": 1}, keys_if_undelivered=["x", ["y", 7], ["long", "ä" * 1_000]])
    bury(journey.source, b"\0\xff", "other", keys_if_undelivered=[["z"]])
    entries = journey.source.keys()
    assert len(entries) == 4
    journey.copy(["q"])
    assert journey.target.keys() == [entry for entry in entries if entry.id == dead]
    journey.copy()
    assert journey.target.keys() == entries


def test_a_key_that_was_forgotten_does_not_come_back(short_journey: Journey) -> None:
    bury(short_journey.source, 1, keys_if_undelivered=["x"])
    short_journey.copy()
    assert short_journey.target.forget("x")
    short_journey.copy()
    assert short_journey.target.keys() == []


def test_a_key_that_was_written_at_the_target_later_stays(journey: Journey) -> None:
    for payload, key in (("old", "x"), ("only here", "y")):
        bury(journey.source, payload, keys_if_undelivered=[key])
    bury(journey.target, "newer", "other", keys_if_undelivered=["x"])
    journey.copy()
    assert [entry.value for entry in journey.target.keys("x")] == ["newer"]
    assert [entry.value for entry in journey.target.keys("y")] == ["only here"]


def test_only_the_named_queues_arrive(journey: Journey) -> None:
    for queue in ("a", "b", "c"):
        journey.source.send(queue, queue)
    reports = journey.copy(["c", "a", "c"])
    assert [report.queue for report in reports] == ["a", "c"]
    assert [stats.queue for stats in journey.target.queues()] == ["a", "c"]
    assert not journey.source.stats("b").paused
    assert [report.copied for report in journey.copy()] == [0, 1, 0]
    assert [stats.ready for stats in journey.target.queues()] == [1, 1, 1]


def test_messages_go_on_living_at_the_target(journey: Journey) -> None:
    """What was copied is no different from what was sent there."""
    id = journey.source.send("q", 1, max_attempts=2, backoff=[0, 0])
    journey.source.nack(take(journey.source))
    journey.copy()
    delivery = take(journey.target)
    assert (delivery.id, delivery.attempt) == (id, 2)
    journey.target.nack(delivery, reason="no luck")
    assert journey.target.get(id).state == State.DEAD
    assert journey.target.redrive("q", ids=[id]) == 1
    journey.target.ack(take(journey.target))
    events = [event.event for event in journey.target.audit(id)]
    assert events[:3] == ["enqueued", "delivered", "nacked"]
    assert events[-3:] == ["redriven", "delivered", "acked"]


def test_new_messages_of_the_target_come_behind_those_that_were_copied(journey: Journey) -> None:
    journey.source.send_many("q", [0, 1])
    journey.copy()
    journey.target.send_many("q", [2, 3])
    assert drain(journey.target) == [0, 1, 2, 3]


def test_a_message_travels_through_three_databases_and_back(short_journey: Journey, tmp_path: Path) -> None:
    id, own = short_journey.source.send("q", 1), short_journey.source.send("q", 2, id="mine")
    elsewhere = f"sqlite:///{tmp_path / 'third.db'}"
    copy(short_journey.source_url, short_journey.target_url, remove=True)
    copy(short_journey.target_url, elsewhere, remove=True)
    short_journey.source.delete_queue("q")
    copy(elsewhere, short_journey.source_url)
    assert [message.id for message in short_journey.source.browse("q")] == [id, own]
    assert short_journey.source.audit(own)[0].event == "enqueued"
    assert [short_journey.source.get(each).payload for each in (id, own)] == [1, 2]


def test_a_send_that_is_tried_once_more_at_the_target_gets_its_first_answer(some_journey: Journey) -> None:
    def send(broker: rowq.Broker, payload: bytes) -> list[str]:
        call = Send("q", [Prepared("q", 0, payload), Prepared("q", 0, payload)], request="try-1")
        return broker._engine.driver.drive(SingleCall(call, list))

    ids = send(some_journey.source, b"1")
    some_journey.copy()
    assert send(some_journey.target, b"1") == ids
    assert some_journey.target.stats("q").ready == 2
    with pytest.raises(rowq.RequestConflict):
        send(some_journey.target, b"2")


def one_of_each(broker: rowq.Broker) -> dict[str, str]:
    """Every state, with attempts, errors and reasons."""
    broker.configure("q", keep="body", backoff=[0], max_attempts=5)
    ids = {"finished": broker.send("q", "replaced", key="f", priority=1)}
    broker.send("q", "finished", key="f")
    broker.ack(take(broker, consumer="worker"))
    broker.configure("q", keep="outcome")
    ids["outcome"] = broker.send("q", "outcome")
    drain(broker)
    ids["dead"] = bury(broker, "dead", reason="why not", headers={"h": "1"}, group="d")
    ids["leased dead"] = broker.send("q", "leased dead", max_attempts=1)
    broker.nack(take(broker), reason="broken")
    broker.nack(take(broker, "q.dlq"), delay=3600)
    assert take(broker, "q.dlq").id in ids.values()
    for delivery in broker.receive("q", max=1000):
        broker.nack(delivery)
    ids["leased"] = broker.send("q", "leased", ttl=7200)
    broker.nack(take(broker), reason="first try")
    broker.nack(take(broker), reason="second try")
    assert take(broker, lease=3600, consumer="busy").id == ids["leased"]
    ids["ready"] = broker.send("q", "ready", group="g", priority=7)
    ids["blocked"] = broker.send("q", "blocked", group="g", ttl=3600, key="b")
    ids["later"] = broker.send("q", "blocked and delayed", group="g", delay=600)
    ids["scheduled"] = broker.send("q", "scheduled", delay=60, deadline=600)
    return ids


def counts(stats: rowq.Stats) -> Counts:
    return Counts(*[getattr(stats, state) for state in Counts.__struct_fields__])


def test_registered_consumers_stay_where_they_are(journey: Journey) -> None:
    journey.source.send("q", 1)
    id = journey.source.register("q", dead_after=60).id
    journey.copy()
    assert [member.id for member in journey.source.consumers("q", dead_after=60)] == [id]
    assert journey.target.consumers("q", dead_after=60) == []


def test_sessions_of_the_pages_stay_where_they_are(journey: Journey) -> None:
    journey.source.send("q", 1)
    source, target = journey.source._engine, journey.target._engine
    source.driver.drive(source.verbs.sign_in(b"d" * 32, "ops", b"k" * 32, 60_000))
    journey.copy()
    assert source.insights.session(b"d" * 32) is not None
    assert target.insights.session(b"d" * 32) is None
