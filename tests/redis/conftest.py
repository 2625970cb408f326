"""A Redis for all, one of its own for a test that stops it, and notifiers that are closed in the end."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from redis import Redis
from rowq.store.notify import redis as redis_notifier
from rowq.store.notify import settings_cache
from rowq.store.notify.notifier import Notification
from rowq.store.notify.redis import RedisNotifier
from rowq.store.notify.settings_cache import RedisSettingsCache
from tests.support.patience import eventually
from tests.support.servers import RedisServer, own_redis, shared_redis

OpenNotifier = Callable[..., RedisNotifier]
OpenCache = Callable[..., RedisSettingsCache]

HOUR = 3_600.0
"""Seconds. Where a wait of the product is set to an hour, a test that ends has not waited for it."""
WITHIN = 20.0
"""Seconds: the deadline for a hang."""


class Ear:
    """What one notifier hears, without the word that settings may have changed, which comes with each subscription."""

    def __init__(self, notifier: RedisNotifier) -> None:
        self.heard: list[Notification] = []
        self.all: list[Notification] = []
        self._notifier = notifier
        notifier.listen(self._hear)

    def wait_until_heard(self) -> Ear:
        eventually(self._notifier.is_heard)
        return self

    def topics(self) -> set[str]:
        return {topic for notification in self.heard for topic in notification.ready}

    def wait_for(self, topic: str) -> None:
        eventually(lambda: topic in self.topics())

    def _hear(self, notification: Notification) -> None:
        self.all.append(notification)
        if notification != Notification(settings=True):
            self.heard.append(notification)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Redis or a thread may stand still for seconds. A test of impatience sets the time that it is about."""
    monkeypatch.setattr(redis_notifier, "TIMEOUT", 30.0)
    monkeypatch.setattr(redis_notifier, "FAREWELL", 30.0)
    monkeypatch.setattr(redis_notifier, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(settings_cache, "TIMEOUT", 30.0)
    monkeypatch.setattr(settings_cache, "PATIENCE", 30.0)


@pytest.fixture
def url() -> str:
    return shared_redis().url("0")


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with own_redis() as server:
        yield server


@pytest.fixture
def namespace() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def raw(url: str) -> Iterator[Redis]:
    with Redis.from_url(url) as client:
        yield client


@pytest.fixture
def open_notifier(namespace: str) -> Iterator[OpenNotifier]:
    opened: list[RedisNotifier] = []

    def open_one(url: str, namespace: str = namespace) -> RedisNotifier:
        opened.append(RedisNotifier(url, namespace))
        return opened[-1]

    yield open_one
    for notifier in opened:
        notifier.close()


@pytest.fixture
def open_cache(namespace: str) -> Iterator[OpenCache]:
    opened: list[RedisSettingsCache] = []

    def open_one(url: str, namespace: str = namespace) -> RedisSettingsCache:
        opened.append(RedisSettingsCache(url, namespace))
        return opened[-1]

    yield open_one
    for cache in opened:
        cache.close()


@contextmanager
def silent(server: RedisServer) -> Iterator[None]:
    """Its connections stand, and nothing comes out of them."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def add_user(server: RedisServer, rules: str) -> str:
    """A URL for a user who may not do everything."""
    with Redis.from_url(server.url()) as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", *rules.split())
    return server.url().replace("://", "://limited:secret@")
