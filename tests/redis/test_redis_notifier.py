"""Redis as a notifier: hints arrive elsewhere and soon, and nobody waits for a Redis that is away."""

from __future__ import annotations

import logging
import os
import socket
import statistics
import threading
import time
from types import SimpleNamespace

import pytest

from redis import Redis
from rowq.store.notify import redis as redis_notifier
from rowq.store.notify.notifier import Notification
from rowq.store.notify.redis import RedisNotifier
from rowq.store.notify.redis_connection import RedisConnection
from tests.redis.conftest import HOUR, WITHIN, Ear, OpenNotifier, add_user, silent
from tests.rivals.forking import fork
from tests.support.background import Background
from tests.support.patience import eventually
from tests.support.servers import RedisServer


def ready(topic: str, count: int = 1, place: tuple[int, int] | None = None) -> Notification:
    return Notification(ready={topic: (count, place)})


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records if record.name == "rowq.redis"]


def threads_of_notifiers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("rowq-redis")}


def tell_often(notifier: RedisNotifier) -> None:
    """In a thread with a deadline: where telling waits for Redis, this does not end."""

    def tell() -> None:
        for number in range(200):
            notifier.tell(ready(f"q{number % 5}"))

    Background(tell).result(WITHIN)


def test_notifiers_hear_each_other_and_not_themselves(url: str, open_notifier: OpenNotifier) -> None:
    one, other = open_notifier(url), open_notifier(url)
    ear, other_ear = Ear(one).wait_until_heard(), Ear(other).wait_until_heard()
    one.tell(ready("from one", 3, (0, 7)))
    other_ear.wait_for("from one")
    other.tell(Notification(ready={"from other": (1, None)}, settings=True))
    ear.wait_for("from other")
    assert other_ear.heard == [ready("from one", 3, (0, 7))]
    assert ear.heard == [Notification(ready={"from other": (1, None)}, settings=True)]


def test_another_database_on_the_same_redis_hears_nothing(url: str, namespace: str, open_notifier: OpenNotifier) -> None:
    ear = Ear(open_notifier(url)).wait_until_heard()
    elsewhere = Ear(open_notifier(url, f"{namespace}2")).wait_until_heard()
    open_notifier(url).tell(ready("here"))
    ear.wait_for("here")
    open_notifier(url, f"{namespace}2").tell(ready("there"))
    elsewhere.wait_for("there")
    assert ear.topics() == {"here"}
    assert elsewhere.topics() == {"there"}


def test_a_burst_becomes_a_few_parcels_that_tell_all_of_it(url: str, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_notifier, "GATHER", 0.05)
    ear = Ear(open_notifier(url)).wait_until_heard()
    notifier = open_notifier(url)
    start = time.monotonic()
    for number in range(2_000):
        notifier.tell(ready("q", 1, (0, 2_000 - number)))
    notifier.tell(Notification(settings=True))
    eventually(lambda: sum(notification.ready["q"][0] for notification in ear.heard if "q" in notification.ready) == 2_000)
    most = (time.monotonic() - start) / redis_notifier.GATHER + 2
    assert len(ear.heard) <= most, "a parcel for each span of gathering, not one for each hint"
    places = [notification.ready["q"][1] for notification in ear.heard if "q" in notification.ready]
    assert min(place for place in places if place) == (0, 1)


def test_parcels_keep_their_distance(url: str, open_notifier: OpenNotifier) -> None:
    ear = Ear(open_notifier(url)).wait_until_heard()
    notifier = open_notifier(url)
    start = time.monotonic()
    for _ in range(300):
        notifier.tell(ready("q"))
        threading.Event().wait(redis_notifier.GATHER / 6)
    notifier.tell(ready("last"))
    ear.wait_for("last")
    assert len(ear.heard) <= (time.monotonic() - start) / redis_notifier.GATHER + 2


def test_a_lone_hint_does_not_wait_for_others(url: str, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """It arrives while the sender still rests, and what is told meanwhile becomes one parcel."""
    may_go_on = threading.Event()
    monkeypatch.setattr(redis_notifier, "time", SimpleNamespace(sleep=lambda seconds: may_go_on.wait(HOUR)))
    ear = Ear(open_notifier(url)).wait_until_heard()
    notifier = open_notifier(url)
    try:
        notifier.tell(ready("first"))
        ear.wait_for("first")
        notifier.tell(ready("second"))
        notifier.tell(ready("third"))
    finally:
        may_go_on.set()
    ear.wait_for("third")
    assert ear.heard == [ready("first"), Notification(ready={"second": (1, None), "third": (1, None)})]


@pytest.mark.prove("a speed on a machine that is not busy; test_a_lone_hint_does_not_wait_for_others stands for it")
def test_a_lone_hint_arrives_at_once(url: str, open_notifier: OpenNotifier) -> None:
    arrived = threading.Event()
    listener, notifier = open_notifier(url), open_notifier(url)
    listener.listen(lambda notification: arrived.set() if notification.ready else None)
    eventually(listener.is_heard)
    latencies = []
    for _ in range(50):
        arrived.clear()
        start = time.perf_counter()
        notifier.tell(ready("q"))
        assert arrived.wait(WITHIN)
        latencies.append(time.perf_counter() - start)
        threading.Event().wait(2 * redis_notifier.GATHER)  # so that the next is alone too
    assert statistics.median(latencies) < 0.1, f"median {statistics.median(latencies) * 1000:.2f} ms"


def test_whoever_begins_to_listen_is_told_that_settings_may_have_changed(url: str, open_notifier: OpenNotifier) -> None:
    ear = Ear(open_notifier(url))
    eventually(lambda: ear.all == [Notification(settings=True)])


@pytest.mark.parametrize(
    "garbage",
    [b"", b"hello", b"\x01", b"\x01\xc1", b"\x01\x92\xa1x\x01", b"\x02\x92\xa1x\x92\x80\xc2", b"\x01" + b"\x91" * 10_000, b"\xff" * 100],
)
def test_what_strangers_put_on_the_channel_is_passed_over(
    garbage: bytes, url: str, namespace: str, raw: Redis, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(open_notifier(url)).wait_until_heard()
    assert raw.publish(f"rowq:{namespace}", garbage) == 1
    open_notifier(url).tell(ready("q"))
    ear.wait_for("q")
    assert ear.heard == [ready("q")]
    assert told(caplog) == []


def test_redis_may_crash_and_come_back(own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowq.redis")
    listener, notifier = open_notifier(own.url()), open_notifier(own.url())
    ear = Ear(listener).wait_until_heard()
    notifier.tell(ready("before"))
    ear.wait_for("before")
    own.kill()
    eventually(lambda: not listener.is_heard())
    tell_often(notifier)
    eventually(lambda: told(caplog) == ["WARNING", "WARNING"])  # one of each notifier
    own.start()
    eventually(lambda: told(caplog) == ["WARNING", "WARNING", "INFO", "INFO"])
    eventually(listener.is_heard)
    notifier.tell(ready("after"))
    ear.wait_for("after")
    assert ear.all.count(Notification(settings=True)) == 2, "what was told while it was away may have been lost"


def test_redis_may_come_later_than_we_do(own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowq.redis")
    own.stop()
    listener, notifier = open_notifier(own.url()), open_notifier(own.url())
    ear = Ear(listener)
    notifier.tell(ready("early"))
    eventually(lambda: told(caplog) == ["WARNING", "WARNING"])
    assert not listener.is_heard()
    own.start()
    eventually(lambda: told(caplog) == ["WARNING", "WARNING", "INFO", "INFO"])
    notifier.tell(ready("late"))
    ear.wait_for("late")


def test_what_could_not_be_told_is_told_later(own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture) -> None:
    ear = Ear(open_notifier(own.url())).wait_until_heard()
    notifier = open_notifier(add_user(own, "-publish"))
    notifier.tell(ready("q", 2))
    eventually(lambda: told(caplog) == ["WARNING"])
    notifier.tell(ready("q", 3))
    add_user(own, "+publish")
    eventually(lambda: sum(notification.ready["q"][0] for notification in ear.heard) == 5)


def test_a_redis_that_falls_silent_is_noticed(own: RedisServer, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_notifier, "SILENCE", 0.1)
    monkeypatch.setattr(redis_notifier, "TIMEOUT", 0.3)
    listener, notifier = open_notifier(own.url()), open_notifier(own.url())
    ear = Ear(listener).wait_until_heard()
    with silent(own):
        eventually(lambda: not listener.is_heard())

    def is_told_again() -> bool:
        notifier.tell(ready("after"))
        return "after" in ear.topics()

    eventually(is_told_again)


def test_telling_does_not_wait_for_an_answer(
    own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender waits for it, for an hour."""
    monkeypatch.setattr(redis_notifier, "TIMEOUT", HOUR)
    asks, asked = RedisConnection.ask, threading.Event()

    def ask(connection: RedisConnection, *words: str | bytes | int) -> object:
        asked.set()
        return asks(connection, *words)

    monkeypatch.setattr(RedisConnection, "ask", ask)
    notifier = open_notifier(own.url())
    with silent(own):
        notifier.tell(ready("q"))
        assert asked.wait(WITHIN)
        tell_often(notifier)
        assert told(caplog) == []


def test_telling_does_not_wait_for_the_end_of_an_outage(
    own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender sits it out, for an hour."""
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(redis_notifier, pause, HOUR)
    own.kill()
    notifier = open_notifier(own.url())
    notifier.tell(ready("q"))
    eventually(lambda: told(caplog) == ["WARNING"])
    tell_often(notifier)


def test_a_quiet_redis_that_is_there_stays_subscribed(
    own: RedisServer, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_notifier, "SILENCE", 0.01)
    ear = Ear(open_notifier(own.url())).wait_until_heard()
    with Redis.from_url(own.url()) as client:
        eventually(lambda: client.info("commandstats")["cmdstat_ping"]["calls"] > 20)
    open_notifier(own.url()).tell(ready("q"))
    ear.wait_for("q")
    assert ear.all.count(Notification(settings=True)) == 1


def test_connections_that_were_cut_while_idle_cost_no_hint(
    own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear(open_notifier(own.url())).wait_until_heard()
    notifier = open_notifier(own.url())
    notifier.tell(ready("one"))
    ear.wait_for("one")
    with Redis.from_url(own.url()) as client:
        assert client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") == 1
    notifier.tell(ready("two"))
    ear.wait_for("two")
    assert told(caplog) == []


def test_one_direction_that_fails_for_long_is_told_once(
    own: RedisServer, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowq.redis")
    deaf = open_notifier(add_user(own, "-subscribe"))
    ear = Ear(open_notifier(own.url())).wait_until_heard()
    deaf.listen(lambda notification: None)
    eventually(lambda: told(caplog))
    for number in range(20):
        deaf.tell(ready(f"q{number}"))
        ear.wait_for(f"q{number}")
    assert not deaf.is_heard()
    assert told(caplog) == ["WARNING"]


def test_what_gathers_while_redis_is_away_is_bounded(
    own: RedisServer, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redis_notifier, "MAX_TOPICS", 10)
    ear = Ear(open_notifier(own.url())).wait_until_heard()
    notifier = open_notifier(add_user(own, "-publish"))
    notifier.tell(ready("q"))
    eventually(lambda: told(caplog) == ["WARNING"])
    for number in range(1_000):
        notifier.tell(ready(f"q{number}"))
    add_user(own, "+publish")
    eventually(ear.topics)
    notifier.tell(ready("after"))
    ear.wait_for("after")
    assert len(ear.topics()) <= 21, "what was on its way, what had gathered meanwhile, and the last one"


def test_an_error_of_the_hearer_does_not_end_the_listening(url: str, open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Notification] = []

    def hear(notification: Notification) -> None:
        heard.append(notification)
        raise LookupError("no such topic")

    listener, notifier = open_notifier(url), open_notifier(url)
    listener.listen(hear)
    eventually(listener.is_heard)
    notifier.tell(ready("one"))
    eventually(lambda: ready("one") in heard)
    notifier.tell(ready("two"))
    eventually(lambda: ready("two") in heard)
    assert set(told(caplog)) == {"ERROR"}


def test_threads_come_when_they_are_needed_and_go_with_the_notifier(
    url: str, namespace: str, raw: Redis, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_notifier, "SILENCE", HOUR)
    before = threads_of_notifiers()
    notifier = open_notifier(url)
    assert threads_of_notifiers() == before
    Ear(notifier).wait_until_heard()
    notifier.tell(ready("q"))
    eventually(lambda: len(threads_of_notifiers() - before) == 2)
    assert all(thread.daemon for thread in threads_of_notifiers())
    Background(notifier.close).result(WITHIN)  # less than FAREWELL and SILENCE
    assert threads_of_notifiers() == before
    assert not notifier.is_heard()
    eventually(lambda: dict(raw.pubsub_numsub(f"rowq:{namespace}")) == {f"rowq:{namespace}".encode(): 0})


def test_what_was_told_last_goes_out_before_the_end(url: str, open_notifier: OpenNotifier) -> None:
    ear = Ear(open_notifier(url)).wait_until_heard()
    for number in range(20):
        notifier = open_notifier(url)
        notifier.tell(ready(f"q{number}"))
        notifier.close()
        ear.wait_for(f"q{number}")


def test_closing_does_not_wait_for_a_redis_that_is_away(
    open_notifier: OpenNotifier, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_notifier, "TIMEOUT", HOUR)
    monkeypatch.setattr(redis_notifier, "FAREWELL", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as nobody_answers:
        notifier = open_notifier(f"redis://127.0.0.1:{nobody_answers.getsockname()[1]}")
        notifier.listen(lambda notification: None)
        notifier.tell(ready("q"))
        Background(notifier.close).result(WITHIN)
        assert told(caplog) == []


def test_a_closed_notifier_neither_tells_nor_listens(url: str, open_notifier: OpenNotifier) -> None:
    before = threads_of_notifiers()
    notifier = open_notifier(url)
    notifier.close()
    notifier.tell(ready("q"))
    notifier.listen(lambda notification: None)
    notifier.close()
    assert threads_of_notifiers() == before
    assert not notifier.is_heard()


def test_a_hearer_may_close_the_notifier(url: str, open_notifier: OpenNotifier) -> None:
    notifier = open_notifier(url)
    closed = threading.Event()

    def hear(notification: Notification) -> None:
        notifier.close()
        closed.set()

    notifier.listen(hear)
    assert closed.wait(WITHIN)


def test_a_child_leaves_the_notifier_to_its_parent(url: str, open_notifier: OpenNotifier) -> None:
    one, other = open_notifier(url), open_notifier(url)
    ear, other_ear = Ear(one).wait_until_heard(), Ear(other).wait_until_heard()
    one.tell(ready("before"))
    other_ear.wait_for("before")

    def child() -> None:
        one.leave_to_parent()
        assert not one.is_heard()
        one.tell(ready("from the child"))
        one.listen(lambda notification: None)
        one.close()

    for number in range(5):
        pid = fork(child)
        one.tell(ready(f"q{number}"))
        other.tell(ready(f"r{number}"))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        other_ear.wait_for(f"q{number}")
        ear.wait_for(f"r{number}")
    assert "from the child" not in other_ear.topics()
    assert ear.all.count(Notification(settings=True)) == 1, "the parent's subscription stood all the time"
