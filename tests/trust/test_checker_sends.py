"""Runs that are bent in one place: messages that are lost, doubled or out of order, and counts that do not add up."""

from __future__ import annotations

import pytest

from tests.trust.tale import Bend, Bends, Tale

bent = Bends()


@bent("an answered send is in the audit")
def answered_and_lost(tale: Tale) -> None:
    tale.send(1)


@bent("it is where its story ends")
def gone_without_a_word(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued")


@bent("it is where its story ends")
def acked_and_still_there(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.put(1, "ready")


@bent("it is where its story ends")
def in_two_states(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued")
    tale.put(1, "ready")
    tale.put(1, "scheduled")


@bent("everything is in the audit")
def there_and_never_enqueued(tale: Tale) -> None:
    tale.put(1, "ready")


@bent("a message is there once")
def written_twice(tale: Tale) -> None:
    name = tale.send(None, fate="unknown")
    for seq in (1, 2):
        tale.live(seq, "enqueued", f"delivered x{seq}", "acked", name=name)


@bent("a refused send leaves nothing")
def refused_and_there(tale: Tale) -> None:
    name = tale.send(None, fate="refused")
    tale.live(1, "enqueued", "delivered x", "acked", name=name)


@bent("a batch is whole")
def a_batch_in_part(tale: Tale) -> None:
    name = tale.send(None, None, fate="unknown")
    tale.live(1, "enqueued", "delivered x", "acked", name=name)


@bent("an answer names the message")
def another_message_was_meant(tale: Tale) -> None:
    name = tale.send(1)
    tale.live(1, "enqueued")
    tale.put(1, "ready")
    tale.live(2, "enqueued", "delivered x", "acked", name=name)


@bent("nothing is there that nobody sent")
def invented(tale: Tale) -> None:
    tale.live(1, "enqueued", "delivered x", "acked", name="nobody.0.1.0")


@bent("a message comes from a send")
def enqueued_by_nobody(tale: Tale) -> None:
    tale.audit(1, "enqueued")
    tale.put(1, "ready")


@bent("a message without a key is one send")
def two_bodies(tale: Tale) -> None:
    first, second = tale.send(1), tale.send(None, fate="unknown")
    tale.live(1, "enqueued", "delivered x", "nacked", name=first)
    tale.live(1, "delivered y", "acked", name=second)


@bent("a message is in the queue that it was sent to")
def sent_to_one_and_put_into_another(tale: Tale) -> None:
    tale.send(1, queue="fragile")
    tale.live(1, "enqueued", "delivered x", "acked")


@bent("a message is received from its queue")
def asked_for_one_and_given_of_another(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued", "delivered x")
    tale.take(1, "x", queue="fragile")
    tale.live(1, "acked")


@bent("a message keeps its group")
def without_its_group(tale: Tale) -> None:
    tale.send(1, queue="grouped", group="g")
    tale.live(1, "enqueued", "delivered x", "acked", queue="grouped")
    tale.put(1, "acked", "grouped")


@bent("it is where its story ends")
def in_another_queue(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued")
    tale.put(1, "ready", "fragile")


@bent("attempts are counted")
def a_row_that_forgot_its_attempts(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "nacked")
    tale.put(1, "scheduled", attempts=0)


@bent("two sends are two messages")
def one_id_for_two(tale: Tale) -> None:
    name = tale.send(1)
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked", name=name)


@bent("a key's newest payload is delivered")
def a_replaced_payload(tale: Tale) -> None:
    older = tale.send(1, queue="keyed", key="k")
    tale.send(1, queue="keyed", key="k")
    tale.audit(1, "enqueued", "replaced", queue="keyed")
    tale.live(1, "delivered x", "acked", queue="keyed", name=older)
    tale.put(1, "acked", "keyed")


@bent("groups are in order")
def a_later_one_overtakes(tale: Tale) -> None:
    names = {seq: tale.send(seq, queue="grouped", group="g") for seq in (1, 2)}
    tale.audit(1, "enqueued", queue="grouped")
    tale.audit(2, "enqueued", queue="grouped")
    for seq in (2, 1):
        tale.live(seq, f"delivered x{seq}", "acked", queue="grouped", group="g", name=names[seq])
        tale.put(seq, "acked", "grouped")


@bent("groups are in order")
def the_next_comes_before_the_first_is_settled(tale: Tale) -> None:
    names = {seq: tale.send(seq, queue="grouped", group="g") for seq in (1, 2)}
    tale.audit(1, "enqueued", queue="grouped")
    tale.audit(2, "enqueued", queue="grouped")
    tale.live(1, "delivered x", "nacked", queue="grouped", group="g")
    tale.live(2, "delivered y", "acked", queue="grouped", group="g", name=names[2])
    tale.put(1, "scheduled", "grouped")
    tale.put(2, "acked", "grouped")


@bent("groups are in order")
def a_redriven_one_comes_beside_who_has_its_turn(tale: Tale) -> None:
    names = {seq: tale.send(seq, queue="grouped", group="g") for seq in (1, 2)}
    tale.live(1, "enqueued", "delivered x", "rejected", "dead rejected", queue="grouped", group="g")
    tale.live(2, "enqueued", "delivered y", queue="grouped", group="g", name=names[2])
    tale.call("redrive", "grouped")
    tale.audit(1, "redriven", queue="grouped")
    tale._attempts[1] = 0
    tale.live(1, "delivered z", "acked", queue="grouped", group="g")
    tale.put(1, "acked", "grouped")
    tale.put(2, "leased", "grouped")


@bent("groups are in order")
def a_later_send_stands_before(tale: Tale) -> None:
    for seq in (2, 1):
        tale.send(seq, queue="grouped", group="g")
        tale.audit(seq, "enqueued", queue="grouped")
        tale.put(seq, "ready" if seq == 2 else "blocked", "grouped")


@bent("only operators remove")
def purged_by_nobody(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "purged")


@bent("only operators remove")
def deleted_by_nobody(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "deleted")
    tale.delete(2)


@bent("only operators remove")
def redriven_by_nobody(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "rejected", "dead rejected", "redriven")
    tale.put(1, "ready")


@bent("counts add up")
def rows_are_missing_at_a_moment(tale: Tale) -> None:
    tale.evidence.put("counts", [(tale.call("count"), "plain", 6, 7)])


@bent("counts add up")
def stats_tell_of_others(tale: Tale) -> None:
    tale.evidence.put("stats", [("plain", "ready", 1)])


@bent("errors have a name")
def an_error_without_a_name(tale: Tale) -> None:
    tale.evidence.put("crashes", [(tale.call("send"), "builtins.KeyError: 7")])


@pytest.mark.parametrize(("check", "bend"), bent.all)
def test_a_violation_is_named(tale: Tale, check: str, bend: Bend) -> None:
    bend(tale)
    assert check in tale.named()
