"""Settings in Redis: what one has read others find, what is old is not found, and a bad Redis costs a moment, once."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from redis import Redis
from rowq.store.notify import settings_cache
from rowq.store.notify.redis_connection import RedisConnection
from rowq.store.notify.settings_cache import MISSING, NoSettingsCache, RedisSettingsCache
from tests.redis.conftest import HOUR, WITHIN, OpenCache, add_user, silent
from tests.rivals.forking import fork
from tests.support.background import Background
from tests.support.crowd import together
from tests.support.patience import eventually
from tests.support.servers import RedisServer

SETTINGS = b'{"max_attempts":3,"name":"\xc3\xa9"}'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | bytes | int, ...]]:
    """The commands that Redis was asked, whatever came of them."""
    asks, commands = RedisConnection.ask, list[tuple[str | bytes | int, ...]]()

    def ask(connection: RedisConnection, *words: str | bytes | int) -> object:
        commands.append(words)
        return asks(connection, *words)

    monkeypatch.setattr(RedisConnection, "ask", ask)
    return commands


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer the thread of a cache that is opened now waits for an hour."""
    monkeypatch.setattr(settings_cache, "TIMEOUT", HOUR)


@pytest.fixture
def silent_url() -> Iterator[str]:
    """Connections are taken, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"


def assert_that_one_caller_waits(cache: RedisSettingsCache, asked: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, for PATIENCE. While Redis rests, no caller asks it: with a patience of an hour one that did would not come back."""

    def get(count: int) -> None:
        answers = Background(lambda: [cache.get(1, "q") for _ in range(count)]).result(WITHIN)
        assert answers == [MISSING] * count

    asked.clear()
    monkeypatch.setattr(settings_cache, "REST", HOUR)
    monkeypatch.setattr(settings_cache, "PATIENCE", 0.05)
    get(1)
    monkeypatch.setattr(settings_cache, "PATIENCE", HOUR)
    get(100)
    assert len(asked) <= 1  # none, where the patience of the caller ended before the thread had begun


def keeps(cache: RedisSettingsCache) -> bool:
    cache.put(2, "q", SETTINGS)
    return cache.get(2, "q") == SETTINGS


@pytest.mark.parametrize("settings", [SETTINGS, b"", b"-", b"x" * 1_000_000, None])
def test_what_one_process_has_read_another_finds(settings: bytes | None, url: str, open_cache: OpenCache) -> None:
    one, other = open_cache(url), open_cache(url)
    assert one.get(1, "q") is MISSING
    one.put(1, "q", settings)
    eventually(lambda: one.get(1, "q") is not MISSING)
    assert other.get(1, "q") == settings


def test_an_entry_is_of_one_version_one_queue_and_one_database(url: str, namespace: str, open_cache: OpenCache) -> None:
    cache, elsewhere = open_cache(url), open_cache(url, f"{namespace}2")
    cache.put(1, "q", SETTINGS)
    eventually(lambda: cache.get(1, "q") == SETTINGS)
    assert cache.get(2, "q") is MISSING
    assert cache.get(1, "q2") is MISSING
    assert elsewhere.get(1, "q") is MISSING


def test_a_version_that_is_not_known_has_no_entries(url: str, namespace: str, raw: Redis, open_cache: OpenCache) -> None:
    cache = open_cache(url)
    cache.put(-1, "q", SETTINGS)
    cache.put(1, "q", SETTINGS)
    eventually(lambda: cache.get(1, "q") == SETTINGS)
    assert raw.keys(f"rowq:{namespace}:*") == [f"rowq:{namespace}:settings:1:q".encode()]
    raw.set(f"rowq:{namespace}:settings:-1:q", b"s{}")
    assert cache.get(-1, "q") is MISSING


def test_entries_are_kept_for_half_a_minute(url: str, namespace: str, raw: Redis, open_cache: OpenCache, asked: list[object]) -> None:
    key = f"rowq:{namespace}:settings:1:q"
    cache = open_cache(url)
    cache.put(1, "q", SETTINGS)
    assert cache.get(1, "q") == SETTINGS
    assert asked == [("SET", key, b"s" + SETTINGS, "PX", 30_000), ("GET", key)]
    assert 0 < raw.pttl(key) <= 30_000


def test_old_entries_go_by_themselves(url: str, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_cache, "KEPT", 0.3)
    cache = open_cache(url)
    eventually(lambda: keeps(cache))
    eventually(lambda: cache.get(2, "q") is MISSING)


@pytest.mark.parametrize("entry", [b"", b"--", b"{}", b"\xff\x00"])
def test_an_entry_of_another_release_is_not_read(entry: bytes, url: str, namespace: str, raw: Redis, open_cache: OpenCache) -> None:
    raw.set(f"rowq:{namespace}:settings:1:q", entry, px=30_000)
    assert open_cache(url).get(1, "q") is MISSING


def test_many_threads_ask_at_once(url: str, open_cache: OpenCache) -> None:
    cache = open_cache(url)
    for number in range(8):
        cache.put(1, f"q{number}", str(number).encode())
    answers = together(*(lambda number=number: [cache.get(1, f"q{number}") for _ in range(50)] for number in range(8)))
    assert answers == [[str(number).encode()] * 50 for number in range(8)]


def test_a_redis_that_is_not_there_costs_a_moment_once(
    own: RedisServer, open_cache: OpenCache, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    own.stop()
    assert_that_one_caller_waits(open_cache(own.url()), asked, monkeypatch)


@pytest.mark.usefixtures("unanswered")
def test_a_silent_redis_costs_a_moment_once(
    silent_url: str, open_cache: OpenCache, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_that_one_caller_waits(open_cache(silent_url), asked, monkeypatch)


@pytest.mark.usefixtures("unanswered")
def test_a_redis_that_falls_silent_costs_a_moment_once(
    own: RedisServer, open_cache: OpenCache, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(own.url())
    assert keeps(cache)
    with silent(own):
        assert_that_one_caller_waits(cache, asked, monkeypatch)


def test_a_name_server_that_does_not_answer_costs_a_moment_once(
    open_cache: OpenCache, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def look_up(*args: object) -> list[object]:
        answers.wait(HOUR)
        raise OSError("no such host")

    cache = open_cache("redis://redis.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        assert_that_one_caller_waits(cache, asked, monkeypatch)
    finally:
        answers.set()


@pytest.mark.usefixtures("unanswered")
def test_nobody_waits_for_an_entry_to_be_written(silent_url: str, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_cache, "PATIENCE", HOUR)
    cache = open_cache(silent_url)

    def put() -> None:
        for number in range(1_000):
            cache.put(1, f"q{number}", SETTINGS)

    Background(put).result(WITHIN)


def test_after_a_rest_redis_is_asked_again(own: RedisServer, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_cache, "REST", 0.1)
    cache = open_cache(own.url())
    own.kill()
    assert cache.get(1, "q") is MISSING
    own.start()
    eventually(lambda: keeps(cache))


def test_a_connection_that_was_cut_while_idle_costs_nothing(own: RedisServer, open_cache: OpenCache) -> None:
    cache = open_cache(own.url())
    cache.put(1, "q", SETTINGS)
    eventually(lambda: cache.get(1, "q") == SETTINGS)
    with Redis.from_url(own.url()) as client:
        assert client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") == 1
    assert cache.get(1, "q") == SETTINGS


def test_a_refusal_is_told_once(
    own: RedisServer, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settings_cache, "REST", 0.0)
    cache = open_cache(add_user(own, "-get"))
    for _ in range(5):
        assert cache.get(1, "q") is MISSING
    assert [record.levelname for record in caplog.records if record.name == "rowq.redis"] == ["WARNING"]


def test_that_redis_is_away_is_left_to_the_notifier_to_tell(
    own: RedisServer, open_cache: OpenCache, caplog: pytest.LogCaptureFixture
) -> None:
    own.stop()
    assert open_cache(own.url()).get(1, "q") is MISSING
    assert caplog.records == []


def test_a_closed_cache_knows_nothing(url: str, open_cache: OpenCache) -> None:
    cache = open_cache(url)
    cache.put(1, "q", SETTINGS)
    eventually(lambda: cache.get(1, "q") == SETTINGS)
    cache.close()
    assert not any(thread.name == "rowq-redis-settings" for thread in threading.enumerate())
    assert cache.get(1, "q") is MISSING
    cache.put(1, "q", SETTINGS)
    cache.close()


@pytest.mark.usefixtures("unanswered")
def test_closing_does_not_wait_for_a_silent_redis(silent_url: str, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_cache, "PATIENCE", 0.05)
    cache = open_cache(silent_url)
    assert cache.get(1, "q") is MISSING
    Background(cache.close).result(WITHIN)


def test_a_child_leaves_the_cache_to_its_parent(url: str, open_cache: OpenCache) -> None:
    cache = open_cache(url)
    cache.put(1, "q", SETTINGS)
    eventually(lambda: cache.get(1, "q") == SETTINGS)

    def child() -> None:
        cache.leave_to_parent()
        assert cache.get(1, "q") is MISSING
        cache.put(1, "q", b"from the child")
        cache.close()

    for _ in range(5):
        pid = fork(child)
        assert cache.get(1, "q") == SETTINGS
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert cache.get(1, "q") == SETTINGS


def test_without_redis_nothing_is_cached() -> None:
    cache = NoSettingsCache()
    cache.put(1, "q", SETTINGS)
    assert cache.get(1, "q") is MISSING
    cache.leave_to_parent()
    cache.close()
