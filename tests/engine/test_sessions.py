"""Sessions of the pages: found by the digest of their cookie, over when their time is, and told of in the audit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

import rowq
from rowq import Broker, ManualClock
from rowq.model.access import digest_of
from rowq.store import access
from rowq.store.access import SignedIn
from tests.support.database import Database

WEEK_MS = 7 * 86_400_000
COOKIE, OTHER = digest_of("cookie"), digest_of("other")
KEY = digest_of("key")


@pytest.fixture
def broker(database: Database, clock: ManualClock) -> Iterator[Broker]:
    with rowq.connect(database.url, clock=clock, maintenance=False, actor="http:ops") as broker:
        yield broker


def sign_in(broker: Broker, digest: bytes = COOKIE, name: str = "ops", lifetime_ms: int = WEEK_MS) -> None:
    engine = broker._engine
    engine.driver.drive(engine.verbs.sign_in(digest, name, KEY, lifetime_ms))


def sign_out(broker: Broker, digest: bytes = COOKIE) -> None:
    broker._engine.driver.drive(broker._engine.verbs.sign_out(digest))


def session(broker: Broker, digest: bytes = COOKIE) -> SignedIn | None:
    return broker._engine.insights.session(digest)


def test_whoever_signed_in_is_known_by_the_cookie(broker: Broker, clock: ManualClock) -> None:
    assert session(broker) is None
    sign_in(broker)
    assert session(broker) == ("ops", KEY, clock.now() + WEEK_MS)
    assert session(broker, OTHER) is None


def test_a_session_outlives_the_process(database: Database, broker: Broker) -> None:
    sign_in(broker)
    broker.close()
    with rowq.connect(database.url, maintenance=False) as again:
        assert session(again) is not None


def test_a_session_that_is_closed_is_gone_and_others_stay(broker: Broker) -> None:
    sign_in(broker)
    sign_in(broker, OTHER)
    sign_out(broker)
    assert (session(broker), session(broker, OTHER) is None) == (None, False)


def test_every_coming_and_going_is_told_once_and_without_a_digest(broker: Broker) -> None:
    sign_in(broker)
    sign_out(broker)
    sign_out(broker)
    out, into = broker.actions()
    assert [(line.event, line.queue, line.actor, msgspec.json.decode(line.detail or "")) for line in (into, out)] == [
        ("signed_in", "", "http:ops", {"key": "ops"}),
        ("signed_out", "", "http:ops", {"key": "ops"}),
    ]


def test_maintenance_removes_what_is_over(broker: Broker, clock: ManualClock) -> None:
    sign_in(broker, lifetime_ms=1_000)
    sign_in(broker, OTHER, lifetime_ms=1_001)
    clock.advance(1)
    broker.maintain()
    assert (session(broker), session(broker, OTHER) is None) == (None, False)


def test_each_login_removes_what_is_over(broker: Broker, clock: ManualClock) -> None:
    sign_in(broker, lifetime_ms=1_000)
    clock.advance(1)
    sign_in(broker, OTHER)
    assert session(broker) is None


def test_the_oldest_of_a_key_make_room(broker: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_SESSIONS", 3)
    digests = [digest_of(str(number)) for number in range(5)]
    sign_in(broker, name="neighbour")
    for digest in digests:
        clock.advance(1)
        sign_in(broker, digest)
    assert [session(broker, digest) is not None for digest in digests] == [False, False, True, True, True]
    assert session(broker) is not None
