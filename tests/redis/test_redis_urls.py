"""The address of a Redis: what is taken, where it leads, and what the error says otherwise, without giving away a password."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redis import Redis
from rowq.errors import InvalidArgument
from rowq.store.notify import redis as redis_notifier
from rowq.store.notify.notifier import Notification
from rowq.store.notify.redis_connection import RedisAway, RedisConnection, check_redis_url
from tests.redis.conftest import HOUR, WITHIN, Ear, OpenCache, OpenNotifier, add_user
from tests.support.background import Background
from tests.support.patience import eventually
from tests.support.servers import RedisServer, own_redis
from tests.support.servers.run import current_run
from tests.support.servers.server import free_port

CERTIFICATE = Path(__file__).parents[1] / "support" / "localhost.pem"


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6379/3",
        "redis://:secret@[::1]:6380/0?client_name=jobs",
        "redis://localhost?db=2",
        "rediss://user:p%40ss@example.com:6379/0",
        "rediss://example.com?ssl_cert_reqs=none&ssl_ca_certs=/etc/ca.pem",
        "unix:///run/redis/redis.sock",
        "unix://user:secret@/run/redis/redis.sock?db=1",
    ],
)
def test_urls_of_redis_are_taken_as_they_are(url: str) -> None:
    assert check_redis_url(url) == url


def test_the_scheme_may_be_written_in_capitals() -> None:
    assert check_redis_url("Redis://Host") == "redis://Host"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "redis://localhost:6379"),
        ("localhost:6379", "redis://localhost:6379"),
        ("http://localhost:6379", "redis://localhost:6379"),
        ("redis+sentinel://host", "redis://localhost:6379"),
        ("redis:/localhost", "redis://localhost:6379"),
        ("redis://localhost:port", "host or port"),
        ("redis://localhost:99999", "host or port"),
        ("redis://[::1", "host or port"),
        ("redis://:hunter2/x@localhost", "%2F"),
        ("redis://localhost/hunter2", "is a number"),
        ("redis://localhost?db=hunter2", "'db'"),
        ("redis://localhost?socket_timeout=9", "'socket_timeout'"),
        ("redis://localhost?decode_responses=1", "'decode_responses'"),
        ("redis://localhost?ssl_cert_reqs=none", "ssl_cert_reqs"),
        ("rediss://localhost?ssl_cert_reqs=perhaps", "perhaps"),
        ("unix://", "names no socket"),
    ],
)
def test_anything_else_is_refused_with_advice(url: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_redis_url(url)
    assert hint in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", [None, 6379, b"redis://localhost"])
def test_a_url_is_text(url: object) -> None:
    with pytest.raises(InvalidArgument, match="is text"):
        check_redis_url(url)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "redis"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidArgument, match=r"pip install 'rowq\[redis\]'"):
        check_redis_url("redis://localhost")


def test_a_wrong_password_is_an_error_that_keeps_it(own: RedisServer) -> None:
    url = add_user(own, "+ping").replace("secret", "hunter2")
    with pytest.raises(RedisAway) as refused:
        RedisConnection(url, WITHIN).ask("PING")
    assert "hunter2" not in str(refused.value)


def test_the_database_of_the_url_is_used(own: RedisServer) -> None:
    connection = RedisConnection(own.url("5"), WITHIN)
    connection.ask("SET", "a", "b")
    connection.hang_up()
    with Redis.from_url(own.url("5")) as client:
        assert client.get("a") == b"b"


@pytest.fixture(params=["unix socket", "TLS"])
def other_way(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a Redis that is not reached by plain TCP."""
    if request.param == "unix socket":
        with own_redis() as server, Redis.from_url(server.url()) as client:
            yield f"unix://{client.config_get('unixsocket')['unixsocket']}"
        return
    certificate = current_run().place() / "localhost.pem"  # where the server's user can read it
    shutil.copy(CERTIFICATE, certificate)
    certificate.chmod(0o644)
    port = free_port()
    with own_redis(tls_port=port, tls_cert_file=str(certificate), tls_key_file=str(certificate), tls_auth_clients=False):
        yield f"rediss://localhost:{port}?ssl_ca_certs={certificate}"


def test_hints_go_every_way_and_closing_is_prompt(other_way: str, open_notifier: OpenNotifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing cuts the connection that the listener reads from: neither the next word of Redis nor FAREWELL is waited for."""
    monkeypatch.setattr(redis_notifier, "SILENCE", HOUR)
    listener, notifier = open_notifier(other_way), open_notifier(other_way)
    ear = Ear(listener).wait_until_heard()
    notifier.tell(Notification(ready={"q": (1, None)}))
    ear.wait_for("q")
    for each in (listener, notifier):
        Background(each.close).result(WITHIN)


def test_settings_go_every_way(other_way: str, open_cache: OpenCache) -> None:
    cache = open_cache(other_way)

    def is_kept() -> bool:
        cache.put(1, "q", b"{}")
        return cache.get(1, "q") == b"{}"

    eventually(is_kept)
