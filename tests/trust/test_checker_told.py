"""Runs that are bent in one place: messages of nobody, keys that are none, spans that were not kept, and operators who were told a lie."""

from __future__ import annotations

import pytest

from tests.trust.tale import Bend, Bends, Tale

bent = Bends()


@bent("no more came than was sent")
def of_nobody_and_purged(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.call("purge", "plain")
    tale.audit(2, "enqueued", "purged")


@bent("no more came than was sent")
def of_nobody_and_delivered_to_nobody(tale: Tale) -> None:
    tale.send(None, fate="unknown")
    tale.live(1, "enqueued", "delivered x", "acked")
    tale.audit(2, "enqueued", "delivered y")
    tale.put(2, "leased")


@bent("a refused id is not taken")
def refused_and_its_id_is_there(tale: Tale) -> None:
    tale.send(None, fate="unknown")
    tale.send(None, fate="refused", id="mine")
    tale.evidence.put("own_ids", [("mine", 1)])
    tale.call("purge", "plain")
    tale.audit(1, "enqueued", "purged")


@bent("only a key makes way")
def superseded_without_a_key(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued", "superseded")


@bent("only a key makes way")
def replaced_without_a_key(tale: Tale) -> None:
    tale.send(1)
    newer = tale.send(1)
    tale.audit(1, "enqueued", "replaced")
    tale.live(1, "delivered x", "acked", name=newer)


@bent("a message has one key")
def replaced_by_another_key(tale: Tale) -> None:
    tale.send(1, queue="keyed", key="a")
    newer = tale.send(1, queue="keyed", key="b")
    tale.audit(1, "enqueued", "replaced", queue="keyed")
    tale.live(1, "delivered x", "acked", queue="keyed", name=newer)
    tale.put(1, "acked", "keyed")


@bent("who is named is known")
def received_under_an_id_of_nobody(tale: Tale) -> None:
    tale.evidence.put("taken", [(99, tale.call("receive", "plain", who="c"), "z", "ghost", 1, 9999, "p.0.1.0", None, 7)])


@bent("who is named is known")
def settled_under_an_id_of_nobody(tale: Tale) -> None:
    tale.evidence.put("said", [(99, tale.call("ack", who="c"), "ack", None, "ghost", "done", None)])


@bent("only a TTL lets expire")
def expired_without_a_ttl(tale: Tale) -> None:
    tale.send(1)
    tale.live(1, "enqueued", "expired", "dead message_expired")
    tale.put(1, "dead")


@bent("a TTL is kept")
def expired_before_its_queue_says(tale: Tale) -> None:
    tale.send(1, queue="brief")
    tale.audit(1, "enqueued", "expired", queue="brief")
    tale.put(1, "expired", "brief")


@bent("a TTL is kept")
def expired_before_its_own_ttl(tale: Tale) -> None:
    tale.send(1, ttl=2000)
    tale.live(1, "enqueued", "expired", "dead message_expired")
    tale.put(1, "dead")


@bent("a delay is kept")
def delivered_before_its_delay(tale: Tale) -> None:
    tale.send(1, delay=3000)
    tale.live(1, "enqueued", "delivered x", "acked")


@bent("deleted is deleted")
def delivered_after_an_answered_deletion(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued")
    tale.delete(1, way="http")
    tale.live(1, "delivered x", "acked")


@bent("an answered deletion is in the audit")
def an_answered_deletion_that_was_none(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued")
    tale.delete(1)
    tale.put(1, "ready")


@bent("only operators remove")
def a_refused_deletion_that_was_done(tale: Tale) -> None:
    tale.send(1)
    tale.audit(1, "enqueued")
    tale.delete(1, fate="refused", code="message_not_found")
    tale.audit(1, "deleted")


@bent("a purge takes what was there")
def purged_by_one_that_was_over(tale: Tale) -> None:
    tale.call("purge", "plain")
    tale.send(1)
    tale.audit(1, "enqueued", "purged")


@pytest.mark.parametrize(("check", "bend"), bent.all)
def test_a_violation_is_named(tale: Tale, check: str, bend: Bend) -> None:
    bend(tale)
    assert tale.named() == {check}
