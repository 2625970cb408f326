"""Ids: made by the queue, or brought by the caller."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from rowq import AmbiguousId, Broker, Draft, IdTaken, ManualClock, MessageNotFound
from rowq.ids import message_id, origin_of
from tests.support.life import assert_gone, drain, ids, pass_time, state_of, take


def test_an_id_is_a_uuid_of_version_7_with_the_time_of_sending(broker: Broker, clock: ManualClock) -> None:
    id = uuid.UUID(broker.send("q", "x"))
    assert (id.version, id.variant) == (7, uuid.RFC_4122)
    assert id.int >> 80 == clock.now()


def test_ids_sort_by_order_of_sending(broker: Broker, clock: ManualClock) -> None:
    sent = [broker.send("q", 0), broker.send("p", 1), *broker.send_many("q", [2, 3])]
    clock.advance(0.001)
    sent.append(broker.send("q", 4))
    assert sorted(sent) == sent and len(set(sent)) == 5


def test_an_id_is_never_given_twice_even_in_one_millisecond(broker: Broker) -> None:
    seen = set()
    for _ in range(5):
        seen.add(broker.send("q", "x"))
        drain(broker)
    assert len(seen) == 5


def test_an_own_id_names_the_message_everywhere(broker: Broker) -> None:
    assert broker.send("q", "x", id="order:42_a.b-C") == "order:42_a.b-C"
    assert broker.get("order:42_a.b-C").id == "order:42_a.b-C"
    assert ids(broker.browse("q")) == ["order:42_a.b-C"]
    delivery = take(broker)
    assert delivery.id == "order:42_a.b-C"
    broker.ack(delivery)
    assert_gone(broker, "order:42_a.b-C")
    assert broker.audit("order:42_a.b-C")


def test_own_and_given_ids_may_be_mixed(broker: Broker) -> None:
    own = broker.send("q", 1, id="mine")
    given = broker.send("q", 2)
    assert ids(broker.receive("q", max=10)) == [own, given]


def test_an_own_id_is_taken_while_its_message_is_known(broker: Broker) -> None:
    broker.send("q", "first", id="mine")
    with pytest.raises(IdTaken) as error:
        broker.send("q", "second", id="mine")
    assert error.value.code == "id_taken"
    assert broker.get("mine").payload == "first"
    assert drain(broker, "q") == ["first"]


def test_an_own_id_of_another_queue_is_free(broker: Broker) -> None:
    for queue in ("p", "q"):
        assert broker.send(queue, queue, id="mine") == "mine"
        with pytest.raises(IdTaken):
            broker.send(queue, "again", id="mine")
        assert broker.get("mine", queue=queue).payload == queue


def test_an_own_id_that_several_queues_have_needs_the_queue(broker: Broker) -> None:
    for queue in ("p", "q"):
        broker.send(queue, queue, id="mine")
    for verb in (broker.get, broker.audit, broker.delete):
        with pytest.raises(AmbiguousId, match=r"2 queues .*'mine' \(p, q\): name the queue") as error:
            verb("mine")
        assert error.value.code == "ambiguous_id"
        with pytest.raises(MessageNotFound):
            verb("mine", queue="o")
    assert [event.queue for event in broker.audit("mine", queue="q")] == ["q"]
    broker.delete("mine", queue="p")
    assert_gone(broker, "mine", queue="p")
    assert broker.get("mine").queue == "q"  # the other one is gone
    for verb in (broker.audit, broker.delete):  # which may mean that one
        with pytest.raises(AmbiguousId):
            verb("mine")
    assert [event.event for event in broker.audit("mine", queue="p")] == ["enqueued", "deleted"]
    assert drain(broker, "q") == ["q"]


def test_an_id_that_rowq_made_cannot_be_brought_to_any_queue(broker: Broker) -> None:
    id = broker.send("q", "made")
    for queue in ("p", "q"):
        with pytest.raises(IdTaken):
            broker.send(queue, "brought", id=id)
    assert drain(broker) == ["made"]
    with pytest.raises(IdTaken):
        broker.send("p", "brought", id=id)


def test_an_id_that_was_brought_before_rowq_made_it_means_the_message_that_rowq_made(broker: Broker, clock: ManualClock) -> None:
    drawn = origin_of(broker.send("q", "first"))
    assert drawn is not None
    ahead = [message_id(drawn.seq + 10 + number, clock.now()) for number in range(1, 11)]
    broker.send_many("p", [Draft("brought", id=id) for id in ahead])
    both = set(broker.send_many("q", ["made"] * 10)) & set(ahead)
    assert both
    for id in both:
        assert broker.get(id).payload == broker.get(id, queue="q").payload == "made"
        broker.delete(id)
    assert broker.stats("p").ready == 10


def test_dead_letters_of_one_id_are_treated_in_their_own_queue(broker: Broker) -> None:
    for queue in ("p", "q"):
        broker.send(queue, queue, id="mine")
        broker.reject(take(broker, queue))
    assert broker.redrive("p", ids=["mine"]) == 1
    assert [state_of(broker, "mine", queue=queue) for queue in ("p", "q")] == ["ready", "dead"]
    assert broker.delete_dead("q", ids=["mine"]) == 1
    assert broker.get("mine").queue == "p"


@pytest.mark.parametrize("audit", [True, False])
def test_an_own_id_that_leaves_one_queue_stays_in_the_other(broker: Broker, audit: bool) -> None:
    for queue in ("p", "q"):
        broker.configure(queue, audit=audit)
        broker.send(queue, queue, id="mine")
    assert drain(broker, "p") == ["p"]
    assert broker.get("mine").queue == "q"
    with pytest.raises(IdTaken):
        broker.send("q", "again", id="mine")
    if not audit:
        assert broker.send("p", "anew", id="mine") == "mine"


def test_an_own_id_is_taken_while_its_message_is_leased_or_dead(broker: Broker) -> None:
    broker.send("q", "first", id="mine")
    delivery = take(broker)
    with pytest.raises(IdTaken):
        broker.send("q", "second", id="mine")
    broker.reject(delivery)
    with pytest.raises(IdTaken):
        broker.send("q", "third", id="mine")


def test_an_own_id_is_taken_while_history_keeps_its_message(broker: Broker) -> None:
    broker.configure("q", keep="body")
    broker.send("q", "first", id="mine")
    drain(broker)
    with pytest.raises(IdTaken):
        broker.send("q", "second", id="mine")
    assert broker.get("mine").payload == "first"


def test_an_own_id_is_taken_while_the_audit_tells_of_its_message(broker: Broker, clock: ManualClock) -> None:
    broker.send("q", "first", id="mine")
    drain(broker)
    with pytest.raises(IdTaken):
        broker.send("q", "second", id="mine")
    pass_time(broker, clock, 32 * 86_400)
    assert broker.send("q", "third", id="mine") == "mine"
    assert broker.get("mine").payload == "third"


ENDS: dict[str, Callable[[Broker], object]] = {
    "ack": drain,
    "delete": lambda broker: broker.delete("mine"),
    "purge": lambda broker: broker.purge("q"),
    "delete_queue": lambda broker: broker.delete_queue("q"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_own_id_is_free_when_nothing_tells_of_its_message(broker: Broker, end: Callable[[Broker], object]) -> None:
    broker.configure("q", audit=False)
    broker.send("q", "first", id="mine")
    end(broker)
    broker.send("q", "second", id="mine")
    assert broker.get("mine").payload == "second"


def test_an_own_id_is_free_when_retention_took_its_message(broker: Broker, clock: ManualClock) -> None:
    broker.configure("q", audit=False, keep="body", retention=10)
    broker.send("q", "first", id="mine")
    drain(broker)
    pass_time(broker, clock, 11)
    broker.send("q", "second", id="mine")
    assert drain(broker) == ["second"]


def test_an_id_that_the_queue_has_given_cannot_be_brought(broker: Broker) -> None:
    given = broker.send("q", "first")
    with pytest.raises(IdTaken):
        broker.send("q", "second", id=given)
    assert broker.get(given).payload == "first"


def test_an_id_that_the_queue_has_given_is_taken_while_the_audit_tells_of_it(broker: Broker) -> None:
    id = broker.send("q", "first")
    assert drain(broker) == ["first"]
    with pytest.raises(IdTaken):
        broker.send("q", "second", id=id)
    assert [event.event for event in broker.audit(id)] == ["enqueued", "delivered", "acked"]


def test_an_own_id_that_looks_like_one_of_ours_is_found(broker: Broker) -> None:
    own = "0190163d-8694-7000-8000-00000000002a"
    broker.send("q", "x", id=own)
    assert broker.get(own).payload == "x"
    assert take(broker).id == own


def test_a_message_with_an_own_id_is_deleted_and_redriven_by_it(broker: Broker) -> None:
    broker.send("q", "x", id="mine")
    broker.reject(take(broker))
    assert broker.redrive("q", ids=["mine"]) == 1
    assert state_of(broker, "mine") == "ready"
    broker.delete("mine")
    assert_gone(broker, "mine")


@pytest.mark.parametrize("id", ["", "nonsense", "0190163d-8694-7000-8000-00000000002a", "0" * 500, "ü"])
def test_an_unknown_id_is_not_found(broker: Broker, id: str) -> None:
    broker.send("q", "x")
    with pytest.raises(MessageNotFound) as error:
        broker.get(id)
    assert error.value.code == "message_not_found"


def test_the_seq_of_a_message_under_another_time_is_not_its_id(broker: Broker) -> None:
    id = broker.send("q", "x")
    other_time = f"{int(id[:8], 16) ^ 1:08x}{id[8:]}"
    assert_gone(broker, other_time)
    with pytest.raises(MessageNotFound):
        broker.delete(other_time)
    assert state_of(broker, id) == "ready"
